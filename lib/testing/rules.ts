import type { Callers, Quota } from './quota.js'
import { flat, peek, type Operation, type Steps } from './steps.js'

/** For each rule, the steps that show whether a store keeps it. */
export type Rules = Readonly<Record<string, (quota: Quota, callers: Callers) => Steps>>

/** The same steps with a call of `peek` before each request, which returns what it finds. */
export function withPeeks (rules: Rules): Rules {
  const peeked = Object.entries(rules).map(([name, stepsOf]): [string, Rules[string]] => [
    `peek returns what a request finds: ${name}`,
    (quota, callers) => flat(stepsOf(quota, callers)).map((step) => [peeksBefore(step), step])
  ])
  return Object.fromEntries(peeked)
}

function peeksBefore (step: Operation | number): Operation[] {
  if (typeof step === 'number' || step.call !== 'acquire') return []
  return step.demands.map(peek)
}
