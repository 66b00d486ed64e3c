import type { FastifyInstance } from 'fastify'

/** The part of the log line that describes one quota. */
export interface Protection {
  readonly quota: string
  /** The configured limit. */
  readonly perMinute: number
  /** Methods and paths, such as `POST /api/analyze`. */
  readonly operations: readonly string[]
}

// A marked route that is declared before the plugin is protected, but no public interface of Fastify lists it.
const none = 'no operation (marked routes that are declared before the plugin are not listed)'
const verbs = { enforce: 'protects', shadow: 'observes' } as const

/** Logs one line that lists the operations by quota. */
export function logProtections (fastify: FastifyInstance, protections: readonly Protection[], mode: keyof typeof verbs): void {
  const sentences = protections.map(({ quota, operations }) => `the quota "${quota}" ${verbs[mode]} ${operations.join(', ') || none}`)
  fastify.log.info({ protections }, sentences.join('; '))
}
