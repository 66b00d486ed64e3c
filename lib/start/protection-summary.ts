import type { FastifyInstance } from 'fastify'

/** What one quota protects, as it is logged. */
export interface Protection {
  readonly quota: string
  /** The configured limit. */
  readonly perMinute: number
  /** Methods and paths, such as `POST /api/analyze`. */
  readonly operations: readonly string[]
}

/** Logs one line that lists the protected operations by quota. */
export function logProtections (fastify: FastifyInstance, protections: readonly Protection[]): void {
  const sentences = protections.map(({ quota, operations }) => `the quota "${quota}" protects ${operations.join(', ') || 'no operation'}`)
  fastify.log.info({ protections }, sentences.join('; '))
}
