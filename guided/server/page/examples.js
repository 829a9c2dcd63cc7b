// The kinds of specifications, their request fields, and examples.

const PERSON = `{
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 40},
    "born": {"type": "integer", "minimum": 1700, "maximum": 2000},
    "fields": {
      "type": "array",
      "items": {"enum": ["physics", "chemistry", "mathematics"]},
      "minItems": 1,
      "maxItems": 3,
      "uniqueItems": true
    },
    "alive": {"type": "boolean"}
  },
  "required": ["name", "born", "fields", "alive"]
}`;

const EMAIL = `Extract the order from this e-mail as JSON.

From: Marta Lindqvist <marta@nordlicht-kaffee.de>
Subject: Order BR-20417

Hello, please send 12 bags of Sidamo Washed to Hafenstrasse 17, Hamburg.
We need them by 2025-03-12.`;

const EMAIL_ORDER = `{
  "type": "object",
  "properties": {
    "order_number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{5}$"},
    "customer": {"type": "string", "maxLength": 40},
    "email": {"type": "string", "format": "email"},
    "bags": {"type": "integer", "minimum": 1, "maximum": 999},
    "deliver_by": {"type": "string", "format": "date"}
  },
  "required": ["order_number", "customer", "email", "bags", "deliver_by"]
}`;

const ORDER = `{
  "type": "object",
  "properties": {
    "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    "items": {
      "type": "array",
      "minItems": 1,
      "maxItems": 2,
      "items": {
        "type": "object",
        "properties": {
          "title": {"type": "string", "maxLength": 24},
          "count": {"type": "integer", "minimum": 1, "maximum": 9}
        },
        "required": ["title", "count"]
      }
    },
    "paid": {"type": "boolean"}
  },
  "required": ["id", "items", "paid"]
}`;

const TAG = `{
  "type": "structural_tag",
  "format": {
    "type": "tag",
    "begin": "<answer>",
    "content": {"type": "json_schema", "json_schema": {"enum": ["yes", "no", "unknown"]}},
    "end": "</answer>"
  }
}`;

const SUM = `start: NUMBER (" " OPERATOR " " NUMBER)~1..3 " = " NUMBER

OPERATOR: "+" | "-" | "*"
NUMBER: /[1-9][0-9]{0,2}/`;

const CALENDAR = `root ::= day ", " [0-9]{1,2} " " month
day ::= "Monday" | "Tuesday" | "Wednesday" | "Thursday" | "Friday"
month ::= "January" | "April" | "July" | "October"`;

const DATE = "(19|20)\\d{2}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])";
const MOODS = "positive\nneutral\nnegative";
const CURIE = "Tell me about Marie Curie.";

/** kind -> {name, examples: [{name, prompt, text}], field(text), isJson}. `field` makes the fields of a request. */
export const KINDS = {
  schema: {
    name: "JSON Schema",
    isJson: true,
    field: (text) => ({ json_schema: text }),
    examples: [
      { name: "An e-mail", prompt: EMAIL, text: EMAIL_ORDER },
      { name: "A person", prompt: CURIE, text: PERSON },
      { name: "An order", prompt: "Write an order of office supplies.", text: ORDER },
    ],
  },
  regex: {
    name: "Regular expression",
    field: (text) => ({ regex: text }),
    examples: [
      { name: "A date", prompt: "When did Apollo 11 land on the moon?", text: DATE },
      { name: "A sentence", prompt: "Describe the sea.", text: "[A-Z][a-z ,]{20,90}[.!]" },
    ],
  },
  choice: {
    name: "Choice",
    field: (text) => ({ structured_outputs: { choice: text.split("\n").filter((line) => line !== "") } }),
    examples: [
      { name: "A mood", prompt: "The film was a delight from start to end. What is the mood?", text: MOODS },
    ],
  },
  lark: {
    name: "Lark grammar",
    field: (text) => ({ lark: text }),
    examples: [{ name: "A sum", prompt: "Compute something.", text: SUM }],
  },
  gbnf: {
    name: "GBNF grammar",
    field: (text) => ({ gbnf: text }),
    examples: [{ name: "A day", prompt: "When do we meet?", text: CALENDAR }],
  },
  tag: {
    name: "Structural tag",
    isJson: true,
    field: (text) => ({ structural_tag: text }),
    examples: [{ name: "An answer in tags", prompt: "Is water wet?", text: TAG }],
  },
  grammar: {
    name: "Bundled grammar",
    field: (text) => ({ grammar: text.trim() }),
    examples: [{ name: "json", prompt: "Write a JSON object about a river.", text: "json" }],
  },
  none: { name: "None: free text", field: () => ({}), examples: [] },
};
