import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from '../permit/decision.js'
import type { Permit } from '../permit/permit.js'
import { rateLimitHeaders } from './rate-limit-headers.js'
import { sendRefusal, type AnyReply, type RefusalBodyWriter } from './refusal.js'

/** Options that change the responses of a quota. */
export interface ResponderOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/** Writes what permits add to responses: the headers of their quotas, and refusals. */
export class Responder {
  /** Whether responses have `RateLimit` headers. */
  readonly hasHeaders: boolean
  readonly #writeBody: RefusalBodyWriter | undefined

  constructor (options: ResponderOptions) {
    this.hasHeaders = options.rateLimitHeaders !== undefined
    this.#writeBody = options.refusalBody
  }

  /** Sets the `RateLimit` headers of a permit, also in a hijacked response. */
  setHeaders (permit: Permit, reply: Pick<AnyReply, 'raw'>): void {
    if (!this.hasHeaders || reply.raw.headersSent) return
    for (const [name, value] of rateLimitHeaders(permit)) reply.raw.setHeader(name, value)
  }

  /** Removes the `RateLimit` headers of another permit. */
  removeHeaders (reply: Pick<AnyReply, 'raw'>): void {
    for (const name of ['RateLimit-Policy', 'RateLimit']) reply.raw.removeHeader(name)
  }

  /** Sends the refusal for a decision. */
  sendRefusal (refusal: QuotaDecision, request: FastifyRequest, reply: AnyReply): void {
    sendRefusal(refusal, request, reply, this.#writeBody)
  }
}
