// Vercel's AI SDK against `guided serve`: an object, a stream, tool calls, and an error, through each of its providers.
//
// npm install ai @ai-sdk/openai-compatible @ai-sdk/openai zod; then, while a server runs: node clients_vercel.mjs

import assert from "node:assert";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const baseURL = process.env.GUIDED_URL ?? "http://127.0.0.1:8000/v1";
const name = process.env.GUIDED_MODEL ?? "smollm2-135m-instruct";
const apiKey = process.env.GUIDED_API_KEY ?? "none"; // a server without keys accepts any key
const ask = { maxOutputTokens: 600, maxRetries: 0 }; // any answer is complete within this budget

const compatible = createOpenAICompatible({ name: "guided", baseURL, apiKey, supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL, apiKey });
const models = {
  compatible: compatible(name), // chat completions
  chat: openai.chat(name),
  responses: openai.responses(name),
};

const degrees = (most) => z.number().int().min(-most).max(most);
const Water = z.object({
  name: z.string().max(20),
  kind: z.enum(["river", "lake"]),
  source: z.object({ latitude: degrees(90), longitude: degrees(180) }),
  crossing: z
    .union([
      z.object({ by: z.literal("bridge"), metres: z.number().int().min(1).max(9999) }),
      z.object({ by: z.literal("ferry"), minutes: z.number().int().min(1).max(120) }),
    ])
    .nullable(),
});
const Weather = z.object({ place: z.string().max(20), unit: z.enum(["celsius", "fahrenheit"]) });
const Refused = z.object({ name: z.string().regex(/(?<=(a+)\1)b/) });
const weather = tool({
  description: "The weather.",
  inputSchema: Weather,
  execute: async ({ place }) => `It is warm in ${place}.`,
});

for (const [by, model] of Object.entries(models)) {
  const answer = await generateText({
    ...ask, model, prompt: "Tell me of the Nile.", output: Output.object({ schema: Water }),
  });
  console.log(`object by ${by}:`, JSON.stringify(Water.parse(answer.output)));

  const stream = streamText({
    ...ask, model, prompt: "Tell me of a lake.", output: Output.object({ schema: Water }),
    onError: ({ error }) => { throw error; },
  });
  const partials = [];
  for await (const partial of stream.partialOutputStream) partials.push(partial);
  assert(partials.length > 1);
  console.log(`stream by ${by}:`, JSON.stringify(Water.parse(partials.at(-1))));

  // The first step must call the tool. The second step reads the result.
  const agent = streamText({
    ...ask, model, prompt: "What is the weather in Cairo?", tools: { weather }, stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber ? "none" : "required" }),
    onError: ({ error }) => { throw error; },
  });
  const [step, ...more] = await agent.steps;
  assert(step.toolCalls.length > 0 && more.length === 1);
  console.log(`calls by ${by}:`, JSON.stringify(step.toolCalls.map(({ input }) => Weather.parse(input))));

  try {
    await generateText({ ...ask, model, prompt: "What?", output: Output.object({ schema: Refused }) });
  } catch (error) {
    if (!APICallError.isInstance(error)) throw error;
    console.log(`refused by ${by}:`, error.statusCode, error.message);
  }
}
