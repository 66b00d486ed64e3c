import { isObject } from '../option-checks.js'
import { deepestHolder, holdersIn, readIn } from './holders.js'

/** Names under which APIs state the model. */
export const modelNames = ['model', 'modelVersion', 'modelId', 'model_version', 'model_id']

/** Returns the name of the model that a value states; null if it states none. */
export function modelOf (value: object, depth = deepestHolder): string | null {
  for (const name of modelNames) {
    const model = readIn(value, name)
    // The AI SDK 7 has an object.
    const modelName = isObject(model) ? readIn(model, 'modelId') : model
    if (typeof modelName === 'string' && modelName !== '') return modelName
  }
  if (depth === 0) return null
  const steps = readIn(value, 'steps')
  const lastStep: unknown = Array.isArray(steps) ? steps.at(-1) : undefined
  // The AI SDK names it in the response of a result or step.
  const holders = [...holdersIn(value), readIn(value, 'response'), lastStep]
  for (const holder of holders.filter(isObject)) {
    const model = modelOf(holder, depth - 1)
    if (model !== null) return model
  }
  return null
}
