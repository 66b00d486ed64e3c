import { fileURLToPath } from 'node:url'

/** The top folder of the project, whether this file is compiled or not. */
export const root = fileURLToPath(
  new URL('.', import.meta.resolve('fastify-llm-quota/package.json'))
)
