// Counts in the primary process of node:cluster for all workers, so that several processes on one machine share one limit without a server.
import cluster, { type Worker } from 'node:cluster'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore } from 'fastify-llm-quota'

type Method = 'acquire' | 'peek' | 'forget' | 'clearCounters' | 'inspect'
interface Question { readonly id: number, readonly method: Method, readonly parameters: readonly unknown[] }
interface Answer { readonly id: number, readonly value: unknown }

/** Forwards all calls to the primary process. */
class PrimaryProcessStore implements QuotaStore {
  readonly #waiting = new Map<number, (value: unknown) => void>()
  #asked = 0

  constructor () {
    process.on('message', ({ id, value }: Answer) => {
      this.#waiting.get(id)?.(value)
      this.#waiting.delete(id)
    })
  }

  acquire (...parameters: Parameters<MemoryQuotaStore['acquire']>) { return this.#ask('acquire', parameters) }
  peek (callerKey: string) { return this.#ask('peek', [callerKey]) }
  forget (callerKey: string) { return this.#ask('forget', [callerKey]) }
  clearCounters () { return this.#ask('clearCounters', []) }
  inspect () { return this.#ask('inspect', []) }

  #ask<Asked extends Method> (method: Asked, parameters: Parameters<MemoryQuotaStore[Asked]>) {
    type Result = ReturnType<MemoryQuotaStore[Asked]>
    return new Promise<Result>((resolve) => {
      const id = this.#asked++
      this.#waiting.set(id, (value) => { resolve(value as Result) })
      process.send?.({ id, method, parameters } satisfies Question)
    })
  }
}

if (cluster.isPrimary) {
  const store = new MemoryQuotaStore()
  cluster.on('message', (worker, { id, method, parameters }: Question) => {
    // A worker that ended in the meantime gets no answer. Without a callback, the error would end this process.
    worker.send({ id, value: Reflect.apply(store[method], store, parameters) } satisfies Answer, () => {})
  })
  // Replaces a worker that ended, but not one that never came to listen, because its replacement would end as well.
  const listening = new Set<Worker>()
  cluster.on('listening', (worker) => { listening.add(worker) })
  cluster.on('exit', (worker) => { if (listening.delete(worker)) cluster.fork() })
  for (let worker = 0; worker < 2; worker++) cluster.fork()
} else {
  const app = Fastify()
  const secret = process.env['JWT_SECRET']
  if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
  await app.register(fastifyJwt, { secret })
  app.addHook('onRequest', async (request) => { await request.jwtVerify() })
  await app.register(quotaPlugin, { store: new InsuredQuotaStore({ primary: new PrimaryProcessStore() }) })

  app.post('/api/analyze', async () => ({ answer: 'from your model', process: process.pid }))

  console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
}
