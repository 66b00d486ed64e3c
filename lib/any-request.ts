import type { FastifyRequest } from 'fastify'

/** A request of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyRequest extends Pick<FastifyRequest, 'id' | 'method' | 'url' | 'log'> {
  /** The request of Node.js. */
  readonly raw: object
}

/**
 * A request that a function of the host receives. The request and the server of Node.js have other types with HTTP/2, and only `any` can be used as
 * either.
 */
export type GivenRequest = { readonly [Field in keyof FastifyRequest]: Field extends 'raw' | 'req' | 'server' ? any : FastifyRequest[Field] }

/**
 * A function of the host that gets a request. TypeScript compares the parameters of methods in both directions, so the function can also be one for
 * the requests of a typed route, such as `FastifyRequest<{ Body: Batch }>`, or of a server with HTTP/2.
 */
export type OfRequest<Result> = {
  /** Gets the request. */
  method (request: GivenRequest): Result
}['method']
