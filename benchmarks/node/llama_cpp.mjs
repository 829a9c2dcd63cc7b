// llama.cpp for benchmarks/beside_llama_cpp.py: reads lines of JSON, answers each by one.
// node llama_cpp.mjs MODEL THREADS, with node-llama-cpp in a folder above the working directory.
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [path, threads] = [process.argv[2], Number(process.argv[3])];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: 2048, batchSize: 512, threads});
const sequence = context.getSequence();

for await (const line of createInterface({input: process.stdin})) {
  const {tokens, write} = JSON.parse(line);
  await sequence.clearHistory();
  const begin = performance.now();
  let answer;
  if (write === 0) {
    await sequence.evaluateWithoutGeneratingNewTokens(tokens);
    answer = {seconds: (performance.now() - begin) / 1000};
  } else {
    const written = [];
    let first = 0;
    for await (const token of sequence.evaluate(tokens, {temperature: 0, yieldEogToken: true})) {
      if (written.length === 0) first = performance.now();  // the prompt is read
      written.push(token);
      if (written.length > write) break;
    }
    answer = {seconds: (performance.now() - first) / 1000, tokens: written};
  }
  console.log(JSON.stringify(answer));
}
