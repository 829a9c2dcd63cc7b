// llama.cpp for benchmarks/beside_llama_cpp: reads lines of JSON, answers each by one.
// node llama_cpp.mjs MODEL THREADS [SEQUENCES], with node-llama-cpp in a folder above the working directory.
//
// In: `prompts`, token ids of up to SEQUENCES texts, which are read and continued together; `write`, how many tokens of
// each, past end tokens (0: read only); with `schema` an answer ends with its end token, and what the sequence holds of
// the prompt is not read again. Out: `seconds` in all, `first` until each has its first token, `tokens` of each.
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const {getLlama, LlamaGrammarEvaluationState} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [path, threads, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] ?? 1)];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: 2048, batchSize: 512, threads, sequences: count});
const sequences = Array.from({length: count}, () => context.getSequence());

// Its grammar ends in line feeds, at which node-llama-cpp stops; without them the model writes its end token.
async function constraint(schema) {
  const {grammar} = await llama.createGrammarForJsonSchema(schema);
  const exact = await llama.createGrammar({grammar: grammar.replace(/ "(\\n)+" \[\\n\]\*$/m, "")});
  return new LlamaGrammarEvaluationState({model, grammar: exact});
}

async function run(sequence, prompt, write, schema) {
  let left = prompt;
  if (schema === undefined) await sequence.clearHistory();
  else {
    await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
    left = prompt.slice(sequence.nextTokenIndex);
  }
  const options = {temperature: 0, yieldEogToken: true};
  if (schema !== undefined) options.grammarEvaluationState = await constraint(schema);
  const tokens = [];
  let first = 0;
  if (write === 0) await sequence.evaluateWithoutGeneratingNewTokens(left);
  else
    for await (const token of sequence.evaluate(left, options)) {
      if (tokens.length === 0) first = performance.now();
      tokens.push(token);
      if (tokens.length === write || (schema !== undefined && model.isEogToken(token))) break;
    }
  return {tokens, first};
}

for await (const line of createInterface({input: process.stdin})) {
  const {prompts, write, schema} = JSON.parse(line);
  const begin = performance.now();
  const runs = await Promise.all(prompts.map((prompt, i) => run(sequences[i], prompt, write, schema)));
  const end = performance.now();
  console.log(JSON.stringify({
    seconds: (end - begin) / 1000,
    first: Math.max(0, ...runs.map((each) => each.first - begin)) / 1000,
    tokens: runs.map((each) => each.tokens),
    texts: schema === undefined ? [] : runs.map((each) => model.detokenize(each.tokens)),
  }));
}
