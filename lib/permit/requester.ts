import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Authentication } from '../caller/authentication.js'
import { Unidentified } from '../caller/caller-key.js'
import { callerOfAuthentication, type Caller, type CallerReader } from '../caller/request-caller.js'
import type { ServerChannels } from '../channels.js'
import { logFailure } from '../log.js'
import type { Eventual } from '../promises.js'
import type { Closing } from './closing.js'
import type { QuotaLog } from './quota-log.js'

/** What the permits of a server share. */
export interface PermitServer {
  readonly quotaLog: QuotaLog
  readonly channels: ServerChannels
  readonly closing: Closing
}

/** What a reader of callers has returned. */
interface ReadCaller {
  readonly reader: CallerReader
  readonly caller: Eventual<Caller | Unidentified>
}

/** Who asks for a permit: a request, or an authentication without one. */
export class Requester {
  readonly server: PermitServer
  /** Null if the permit is for an authentication. */
  readonly request: FastifyRequest | null
  readonly log: FastifyBaseLogger
  readonly #authentication: Authentication | null
  readonly #callers: ReadCaller[] = []

  /** @param authentication Null if the permit is for a request. */
  constructor (
    server: PermitServer,
    request: FastifyRequest | null,
    authentication: Authentication | null,
    log: FastifyBaseLogger
  ) {
    this.server = server
    this.request = request
    this.log = log
    this.#authentication = authentication
  }

  /** Returns the caller. Each reader is asked once, whichever quotas share it. */
  callerOf (reader: CallerReader): Eventual<Caller | Unidentified> {
    for (const read of this.#callers) {
      if (read.reader === reader) return read.caller
    }
    const caller = this.request === null ? this.#authenticated() : reader.read(this.request)
    this.#callers.push({ reader, caller })
    return caller
  }

  #authenticated (): Caller | Unidentified {
    try {
      return callerOfAuthentication(this.#authentication)
    } catch (error) {
      // A getter of the claims threw.
      logFailure(this.log, error, 'the authentication could not be read; it has no caller')
      return new Unidentified('no-authentication')
    }
  }
}
