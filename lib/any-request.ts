import type { FastifyRequest } from 'fastify'

/** A request of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyRequest extends Pick<FastifyRequest, 'id' | 'method' | 'url' | 'log'> {
  /** The request of Node.js. */
  readonly raw: object
}

/**
 * A function that receives a request. TypeScript compares the parameters of methods in both
 * directions, so the function can also be one for the requests of a typed route, such as
 * `FastifyRequest<{ Body: Batch }>`.
 */
export type OfRequest<Result, Parameters extends readonly unknown[] = [request: FastifyRequest]> = {
  /** Receives the request. */
  method(...parameters: Parameters): Result
}['method']
