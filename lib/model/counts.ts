import { isNatural, isObject } from '../option-checks.js'
import {
  anthropicCacheNames,
  cachedInputNames,
  cacheWriteNames,
  converseCacheNames,
  furtherInputNames,
  inputDetails,
  inputNames,
  outputDetails,
  outputNames,
  perplexityNames,
  reasoningNames,
  separateReasoningNames,
  totalNames
} from './count-names.js'

/** Numbers of model tokens. */
export interface TokenCounts {
  /** All of them: at least input and output together. */
  readonly total: number
  /** What the model read, whatever of it came from a cache. */
  readonly input: number
  /** The part of the input that was read from a cache. */
  readonly cachedInput: number
  /** The part of the input that was written to a cache. */
  readonly cacheWrites: number
  /** What the model wrote, its reasoning included. */
  readonly output: number
  /** The part of the output that is reasoning. */
  readonly reasoning: number
}

/** What stands beside a usage object and says more about it. */
export interface BesideUsage {
  /** Objects with further parts, such as those of the AI SDK's `providerMetadata`. */
  readonly parts: readonly object[]
  /** Whether the input is known to leave out what was cached. */
  readonly hasSeparateCache: boolean
  /** Whether the input leaves out the tokens of images. */
  readonly hasSeparateImages: boolean
}

const nothing: BesideUsage = { parts: [], hasSeparateCache: false, hasSeparateImages: false }

/**
 * Returns the numbers of one usage object; null if it states none, if one of them cannot be read,
 * or if all are 0, which servers send before they know.
 */
export function countsIn (usage: object, beside = nothing): TokenCounts | null {
  if (hasUnreadable(usage)) return null
  const itself = ownCountsIn(usage, beside)
  return greaterOf(iterationsIn(usage, itself?.reasoning ?? 0), itself)
}

const wholeNames = [...totalNames, ...inputNames, ...outputNames, ...furtherInputNames]
const partNames = [...cachedInputNames, ...cacheWriteNames, ...reasoningNames]

/** Whether a usage states a number of tokens that is none, such as 12.5: others make no usage. */
function hasUnreadable (usage: object): boolean {
  const details = objectsIn(usage, [...inputDetails, ...outputDetails])
  return [usage, ...details, ...elementsIn(usage, 'iterations')].some((source) => {
    // A text under the name of a part is what a model wrote: `reasoning`.
    const isWrong = wholeNames.some((name) => isUnreadable(statedIn(source, name)))
    return isWrong || partNames.some((name) => isWrongNumber(statedIn(source, name)))
  })
}

function isUnreadable (count: unknown): boolean {
  return typeof count === 'string' || isWrongNumber(count)
}

function isWrongNumber (count: unknown): boolean {
  return typeof count === 'number' && !isNatural(count)
}

/** The numbers as stated, before it is known which of them contain others. */
interface StatedCounts {
  readonly total: number
  readonly input: number
  readonly output: number
  /** What was read from a cache and written to it. */
  readonly cache: number
  readonly reasoning: number
}

function ownCountsIn (usage: object, beside: BesideUsage): TokenCounts | null {
  const sources = [usage, ...beside.parts]
  const inputSources = [...sources, ...objectsIn(usage, inputDetails)]
  const outputSources = [...sources, ...objectsIn(usage, outputDetails)]
  const cachedInput = greatestIn(inputSources, cachedInputNames)
  const cacheWrites = greatestIn(inputSources, cacheWriteNames)
  const furtherInput = sumOf(sources, furtherInputNames)
  const images = beside.hasSeparateImages ? greatestIn([usage], ['image_tokens']) : 0
  const stated: StatedCounts = {
    total: greatestIn([usage], totalNames),
    input: greatestIn([usage], inputNames) + furtherInput + images,
    output: greatestIn([usage], outputNames) + outputOfTitan(usage),
    cache: cachedInput + cacheWrites,
    reasoning: greatestIn(outputSources, reasoningNames)
  }
  if (stated.total + stated.input + stated.output === 0) return null
  const isCacheSeparate = hasSeparateCache(usage, stated, beside)
  const isReasoningSeparate = hasSeparateReasoning(sources, stated)
  const input = stated.input + (isCacheSeparate ? stated.cache : 0)
  const output = stated.output + (isReasoningSeparate ? stated.reasoning : 0)
  const total = Math.max(stated.total, input + output)
  // Numbers that cannot be added up exactly are no numbers of tokens.
  if (!isNatural(total)) return null
  return { total, input, cachedInput, cacheWrites, output, reasoning: stated.reasoning }
}

/** Titan on Bedrock states the output of each of its results. */
function outputOfTitan (usage: object): number {
  return sumOf(elementsIn(usage, 'results'), ['tokenCount'])
}

/**
 * Whether the number of input tokens leaves out what was cached. Numbers that do not add up
 * otherwise decide. Where they add up both ways, the names tell the API. Each rule is there for a
 * usage of test/model/usage.test.ts that is read wrongly without it:
 *
 * | rule | usage | input | cache | output | reasoning | total | left out |
 * |---|---|---|---|---|---|---|---|
 * | part | an input that is smaller | 10 | 90 | 50 | 0 | none | yes |
 * | total | room for both | 60 | 40 | 40 | 10 | 150 | yes |
 * | total | room for it alone | 60 | 40 | 50 | 10 | 150 | yes |
 * | total | of one size, the reasoning | 100 | 10 | 40 | 10 | 150 | no |
 * | OpenAI | of the names of two APIs | 100 | 64 | 50 | 0 | none | no |
 * | beside | cached input over Anthropic (AI SDK 5) | 60 | 40 | 50 | 0 | 110 | yes |
 * | Converse | Claude Code, of which less is cached | 70 | 30 | 50 | 0 | none | yes |
 * | Anthropic | the cached input of each counts | 23,000 | 5,000 | 1,000 | 0 | none | yes |
 * | same | an input that is equal to it | 17,102 | 17,102 | 19 | 0 | none | no |
 * | sum | if the total shows it | 17,110 | 17,102 | 11 | 0 | 17,121 | no |
 */
function hasSeparateCache (usage: object, stated: StatedCounts, beside: BesideUsage): boolean {
  if (cannotContainCache(stated)) return true
  // OpenAI's name of the whole input, whatever names others add.
  if (hasAny([usage], ['prompt_tokens'])) return false
  if (beside.hasSeparateCache || hasAny([usage], converseCacheNames)) return true
  return hasAny([usage], anthropicCacheNames) && !isCountedInInput(stated)
}

/** Whether the numbers add up only if the cache stands beside the input (part, total). */
function cannotContainCache ({ total, input, output, cache, reasoning }: StatedCounts): boolean {
  // A part is never larger than its whole.
  if (cache > input) return true
  const surplus = total - input - output
  // If both are of one size, the total can count either. More APIs state reasoning beside.
  return surplus === reasoning + cache || (surplus === cache && cache !== reasoning)
}

/**
 * Whether a server uses Anthropic's names for an input that contains the cache: it states the same
 * number twice, or a total that is the sum of input and output (same, sum).
 */
function isCountedInInput ({ total, input, output, cache }: StatedCounts): boolean {
  return input === cache || total === input + output
}

/** Whether reasoning is not part of the number of output tokens. */
function hasSeparateReasoning (sources: readonly object[], stated: StatedCounts): boolean {
  const { total, input, output, cache, reasoning } = stated
  if (reasoning === 0) return false
  // A part is never larger than its whole.
  if (reasoning > output) return true
  if (hasAny(sources, separateReasoningNames) || hasAny(sources, perplexityNames)) return true
  const surplus = total - input - output
  return surplus === reasoning || surplus === reasoning + cache
}

/**
 * Returns the tokens of all times that Anthropic's API asked a model for one message, for example
 * to compact a conversation; null if it lists none. The numbers of the usage itself omit some of
 * them. A model that declined before it wrote anything is not billed.
 *
 * @param reasoning What the usage itself states. The list does not state it.
 */
function iterationsIn (usage: object, reasoning: number): TokenCounts | null {
  const billed: TokenCounts[] = []
  for (const iteration of elementsIn(usage, 'iterations')) {
    const counts = ownCountsIn(iteration, nothing)
    if (counts !== null && counts.output > 0) billed.push(counts)
  }
  const sum = sumOfCounts(billed)
  return sum === null ? null : { ...sum, reasoning: Math.min(reasoning, sum.output) }
}

/** Returns the sum; null of an empty list, or if it is not a safe integer. */
export function sumOfCounts (list: readonly TokenCounts[]): TokenCounts | null {
  const sum = { total: 0, input: 0, cachedInput: 0, cacheWrites: 0, output: 0, reasoning: 0 }
  for (const counts of list) {
    sum.total += counts.total
    sum.input += counts.input
    sum.cachedInput += counts.cachedInput
    sum.cacheWrites += counts.cacheWrites
    sum.output += counts.output
    sum.reasoning += counts.reasoning
  }
  return list.length > 0 && isNatural(sum.total) ? sum : null
}

/**
 * Returns what several answers to one request used, which all read the same input; null of an empty
 * list, or if it is not a safe integer.
 */
export function sumOfChoices (list: readonly TokenCounts[]): TokenCounts | null {
  const sum = sumOfCounts(list)
  if (sum === null) return null
  const greatest = list.reduce((first, second) => second.input > first.input ? second : first)
  const { input, cachedInput, cacheWrites } = greatest
  return { ...sum, total: sum.total - sum.input + input, input, cachedInput, cacheWrites }
}

/**
 * Returns the counts with the greater total; of equal ones, those that assign more of it to input
 * and output, then those with more details, and otherwise the first.
 */
export function greaterOf (
  first: TokenCounts | null,
  second: TokenCounts | null
): TokenCounts | null {
  if (first === null || second === null) return first ?? second
  const more =
    second.total - first.total ||
    assignedOf(second) - assignedOf(first) ||
    detailsOf(second) - detailsOf(first)
  return more > 0 ? second : first
}

function assignedOf ({ input, output }: TokenCounts): number {
  return input + output
}

function detailsOf ({ cachedInput, cacheWrites, reasoning }: TokenCounts): number {
  return cachedInput + cacheWrites + reasoning
}

/** Returns the greatest number that one of the objects has under one of the names, else 0. */
function greatestIn (sources: readonly object[], names: readonly string[]): number {
  let greatest = 0
  for (const source of sources) {
    for (const name of names) greatest = Math.max(greatest, numberIn(source, name) ?? 0)
  }
  return greatest
}

function sumOf (sources: readonly object[], names: readonly string[]): number {
  let sum = 0
  for (const source of sources) {
    for (const name of names) sum += numberIn(source, name) ?? 0
  }
  return sum
}

function hasAny (sources: readonly object[], names: readonly string[]): boolean {
  return sources.some((source) => names.some((name) => propertyOf(source, name) != null))
}

function numberIn (source: object, name: string): number | undefined {
  const count = statedIn(source, name)
  return isNatural(count) ? count : undefined
}

/** Returns what is stated; of an object, its `total` (the AI SDK's nested form). */
function statedIn (source: object, name: string): unknown {
  const value = propertyOf(source, name)
  return isObject(value) ? propertyOf(value, 'total') : value
}

function objectsIn (source: object, names: readonly string[]): object[] {
  return names.map((name) => propertyOf(source, name)).filter(isObject)
}

/** Returns the objects in the list under a name; none if there is no list. */
function elementsIn (source: object, name: string): object[] {
  const list = propertyOf(source, name)
  return Array.isArray(list) ? list.filter(isObject) : []
}

/** Returns a property of an object whose type is not known. */
export function propertyOf (source: object, name: string): unknown {
  return Reflect.get(source, name)
}
