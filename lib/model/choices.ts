import { isObject } from '../option-checks.js'
import { propertyOf } from './counts.js'
import { readIn } from './holders.js'

/** What a chunk holds of one of the answers that a model writes to a request. */
export interface Choice {
  /** Tells the answers apart. */
  readonly index: number
  readonly value: object
}

/** How many answers to one request are told apart. Bounds the memory: no API allows as many. */
export const mostChoices = 10_000

/** Returns the answers of which a holder lists parts. */
export function choicesOf (holder: object): Choice[] {
  const choices: Choice[] = []
  for (const name of ['choices', 'candidates']) {
    const list = readIn(holder, name)
    if (!Array.isArray(list)) continue
    for (const [position, value] of list.filter(isObject).entries()) {
      const index = propertyOf(value, 'index')
      choices.push({ index: typeof index === 'number' ? index : position, value })
    }
  }
  return choices
}
