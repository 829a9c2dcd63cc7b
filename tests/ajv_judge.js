// Judges JSON values with ajv. A line of standard input is {"draft", "schema", "texts"}; the answer is a line with a
// verdict for each text, true or false, or {"error"} where ajv does not compile the schema. The folder that holds
// node_modules is the first argument.
"use strict";
const { createRequire } = require("module");
const { join } = require("path");
const { createInterface } = require("readline");

const load = createRequire(join(process.argv[2], "from-here.js"));
const options = { strict: false, validateSchema: false, validateFormats: false, logger: false, unicodeRegExp: true };
const classes = { "draft-04": "ajv-draft-04", "2019-09": "ajv/dist/2019", "2020-12": "ajv/dist/2020" };

function judge({ draft, schema, texts }) {
  const Ajv = load(classes[draft] || "ajv").default;
  const ajv = new Ajv({ ...options, ...(draft === "draft-04" ? { schemaId: "id" } : {}) });
  if (draft === "draft-06") ajv.addMetaSchema(load("ajv/dist/refs/json-schema-draft-06.json"));
  const valid = ajv.compile(schema);
  return texts.map((text) => valid(JSON.parse(text)));
}

createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try {
    answer = judge(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error.message || error).slice(0, 200) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
