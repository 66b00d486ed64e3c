// What a decision costs without HTTP: the caller's key and the acquire step, against the least that any such quota does.
import { hash } from 'node:crypto'
import { callerKey, MemoryQuotaStore } from 'fastify-llm-quota'
import { bench, do_not_optimize as keep, group, run, summary } from 'mitata'

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

summary(() => {
  group('a decision without HTTP', () => {
    bench('floor: one SHA-256, one look-up, one clock read', () => {
      const { iss, sub } = users[next()] ?? { iss: '', sub: '' }
      const key = hash('sha256', `oidc\0${iss}\0${sub}`, 'hex')
      let counter = counters.get(key)
      if (counter === undefined) {
        counter = { count: 0 }
        counters.set(key, counter)
      }
      counter.count += 1
      keep(performance.now() + counter.count)
    }).baseline(true)

    bench('this: callerKey and acquire', () => {
      keep(store.acquire(String(callerKey(authentications[next()])), Number.MAX_SAFE_INTEGER))
    })
  })
})

await run()
