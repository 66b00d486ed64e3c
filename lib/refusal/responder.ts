import type { FastifyRequest } from 'fastify'
import type { AnyReply } from '../any-request.js'
import type { QuotaDecision } from '../permit/decision.js'
import type { Permit } from '../permit/permit.js'
import type { Refuser } from '../permit/quota-permit.js'
import { headerNames, rateLimitHeaders } from './rate-limit-headers.js'
import { sendRefusal, type RefusalBodyWriter } from './refusal.js'

/** Options that change the responses of a quota. */
export interface ResponderOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/** Writes what permits add to responses: the headers of their quotas, and refusals. */
export class Responder implements Refuser {
  /** Whether responses have `RateLimit` headers. Otherwise, those of the host are left alone. */
  readonly hasHeaders: boolean
  readonly #writeBody: RefusalBodyWriter | undefined

  constructor (options: ResponderOptions) {
    this.hasHeaders = options.rateLimitHeaders !== undefined
    this.#writeBody = options.refusalBody
  }

  /** Sets the `RateLimit` headers of a permit, also in a hijacked response. */
  setHeaders (permit: Permit, reply: Pick<AnyReply, 'raw'>): void {
    if (reply.raw.headersSent) return
    for (const [name, value] of rateLimitHeaders(permit)) reply.raw.setHeader(name, value)
  }

  /** Sends the refusal for a decision. */
  sendRefusal (refusal: QuotaDecision, request: FastifyRequest, reply: AnyReply): void {
    sendRefusal(refusal, request, reply, this.#writeBody)
  }

  refuse (permit: Permit, refusal: QuotaDecision, request: FastifyRequest, reply: AnyReply): void {
    if (this.hasHeaders) {
      for (const name of headerNames) reply.raw.removeHeader(name)
      this.setHeaders(permit, reply)
    }
    this.sendRefusal(refusal, request, reply)
  }
}
