// Measures a decision without HTTP (the caller key and the acquire step), and the minimum work of any such quota, in alternating rounds.
// Prints nanoseconds as JSON.
import { hash } from 'node:crypto'
import { callerKey, MemoryQuotaStore } from 'fastify-llm-quota'
import { do_not_optimize as keep, measure } from 'mitata'

const rounds = process.argv.includes('--quick') ? 5 : 21
const issuer = 'https://identity.example/realms/taxonomy'
const users = Array.from({ length: 1_000 }, (_, number) => ({ iss: issuer, sub: `550e8400-e29b-41d4-a716-${String(number).padStart(12, '0')}` }))
const authentications = users.map((claims) => ({ kind: 'token' as const, authenticated: true, claims }))
const store = new MemoryQuotaStore()
const counters = new Map<string, { count: number }>()
let turn = 0

function next (): number {
  turn = (turn + 1) % users.length
  return turn
}

function floor (): void {
  const { iss, sub } = users[next()] ?? { iss: '', sub: '' }
  const key = hash('sha256', `oidc\0${iss}\0${sub}`, 'hex')
  let counter = counters.get(key)
  if (counter === undefined) {
    counter = { count: 0 }
    counters.set(key, counter)
  }
  counter.count += 1
  keep(performance.now() + counter.count)
}

function decide (): void {
  keep(store.acquire(String(callerKey(authentications[next()])), Number.MAX_SAFE_INTEGER))
}

const figures: { floor: number[], decision: number[] } = { floor: [], decision: [] }
for (let round = 0; round < rounds; round++) {
  figures.floor.push((await measure(floor, { min_cpu_time: 1e8 })).p50)
  figures.decision.push((await measure(decide, { min_cpu_time: 1e8 })).p50)
}
console.log(JSON.stringify(figures))
