import { flat, peek, type Steps, type StoreCall } from './steps.js'
import type { TestQuota } from './test-quota.js'

/** For each rule, the steps that show whether a store keeps it. */
export type Rules = Readonly<Record<string, (quota: TestQuota) => Steps>>

/** The same steps with a call of `peek` before each request, which returns what it finds. */
export function withPeeks (rules: Rules): Rules {
  const peeked = Object.entries(rules).map(([name, stepsOf]): [string, Rules[string]] => [
    `peek returns what a request finds: ${name}`,
    (quota) => flat(stepsOf(quota)).map((step) => [peeksBefore(step), step])
  ])
  return Object.fromEntries(peeked)
}

function peeksBefore (step: StoreCall | number): StoreCall[] {
  if (typeof step === 'number' || step.name !== 'acquire') return []
  return step.demands.map(peek)
}
