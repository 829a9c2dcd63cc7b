// llama.cpp's probabilities for benchmarks/beside_llama_cpp/accuracy.py.
// node probabilities.mjs MODEL THREADS TOKENS OUT, with node-llama-cpp in a folder above the working directory.
//
// In: TOKENS, a JSON list of ids. Out: the file OUT, float32 (tokens, vocabulary): of the next token after each of them.
import {openSync, readFileSync, writeSync} from "node:fs";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [path, threads, list, out] = [process.argv[2], Number(process.argv[3]), process.argv[4], process.argv[5]];
const tokens = JSON.parse(readFileSync(list, "utf8"));
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: 2048, batchSize: 512, threads});
const sequence = context.getSequence();
const size = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
const wanted = {generateNext: {probabilities: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}};
const file = openSync(out, "w");
const piece = 50;  // rows that are held at once

for (let start = 0; start < tokens.length; start += piece) {
  const part = tokens.slice(start, start + piece);
  const rows = await sequence.controlledEvaluate(part.map((token) => [token, wanted]));
  const numbers = new Float32Array(part.length * size);
  rows.forEach((row, i) => {
    for (const [token, probability] of row.next.probabilities) numbers[i * size + token] = probability;
  });
  writeSync(file, Buffer.from(numbers.buffer));
}
process.exit(0);
