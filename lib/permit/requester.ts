import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Authentication } from '../caller/authentication.js'
import { Unidentified } from '../caller/caller-key.js'
import { callerOfAuthentication, type Caller, type CallerReader } from '../caller/request-caller.js'
import { logFailure } from '../log.js'
import type { Eventual } from '../promises.js'
import { required } from '../required.js'
import type { Closing } from './closing.js'
import type { DecisionLog } from './decision-log.js'
import type { Quota } from './quota.js'
import type { QuotaLog } from './quota-log.js'

/** What the permits of a server share. */
export interface PermitServer {
  /** The server of Node.js, which messages on channels name. */
  readonly server: object
  readonly decisionLog: DecisionLog
  readonly quotaLog: QuotaLog
  readonly closing: Closing
  /** Counts the callers of the plugin's authentication. */
  readonly defaultQuota: Quota
  /** How long a function of the host may take to determine a cost, in milliseconds. */
  readonly hostTimeout: number
}

/** What ends with the response of a request: a permit, or the wait for one. */
export interface EndsWithResponse {
  /** Never rejects. */
  end(): Promise<void>
}

/** Follows the response of a request. */
export interface ResponseFollower {
  /** Ends something when the response closes; at once if it has closed. */
  endWithResponse(each: EndsWithResponse): void
  /** Forgets what has ended. */
  forget(each: EndsWithResponse): void
}

/** The callers of a permit without a request: one, or one for each quota by its name. */
export type GivenCallers = Authentication | ReadonlyMap<string, Authentication>

/** What a reader of callers has returned. */
interface ReadCaller {
  readonly reader: CallerReader
  readonly caller: Eventual<Caller | Unidentified>
}

/** What a requester is. Either the request or the callers are null. */
interface Who {
  readonly request: FastifyRequest | null
  readonly callers: GivenCallers | null
  /** What the host gave. Default: the id of the request, if there is one. */
  readonly reference?: string | null | undefined
  readonly log: FastifyBaseLogger
  readonly response: ResponseFollower | null
  /** Ends a wait for room. */
  readonly signal?: AbortSignal | undefined
}

/** Who asks: a request, or callers without one. */
export class Requester {
  readonly server: PermitServer
  /** Null for a permit without a request. */
  readonly request: FastifyRequest | null
  /** The id of the request, or what the host gave; null if it gave none. */
  readonly reference: string | null
  readonly log: FastifyBaseLogger
  /** Null if the permits of the requester do not end with a response. */
  readonly response: ResponseFollower | null
  /** Ends a wait for room; undefined if the host gave none. */
  readonly signal: AbortSignal | undefined
  readonly #given: GivenCallers | null
  readonly #callers: ReadCaller[] = []

  constructor (server: PermitServer, who: Who) {
    this.server = server
    this.request = who.request
    this.reference = who.reference ?? (who.request === null ? null : String(who.request.id))
    this.log = who.log
    this.response = who.response
    this.signal = who.signal
    this.#given = who.callers
  }

  /** Returns the caller whom a quota counts. Each reader is asked once, whoever shares it. */
  callerOf ({ callers: reader, name }: Quota): Eventual<Caller | Unidentified> {
    if (this.request === null) return this.#givenCaller(name)
    for (const read of this.#callers) {
      if (read.reader === reader) return read.caller
    }
    const caller = reader.read(this.request)
    this.#callers.push({ reader, caller })
    return caller
  }

  /** Returns the caller by the authentication of the plugin; null without a request. */
  pluginCaller (): Eventual<Caller | Unidentified> | null {
    return this.request === null ? null : this.callerOf(this.server.defaultQuota)
  }

  #givenCaller (quota: string): Caller | Unidentified {
    const given = this.#given instanceof Map ? this.#given.get(quota) : this.#given
    const authentication = required(given, 'the caller of a permit without a request')
    try {
      return callerOfAuthentication(authentication)
    } catch (error) {
      // A getter of the claims threw.
      logFailure(this.log, error, 'the authentication could not be read; it has no caller')
      return new Unidentified('no-authentication')
    }
  }
}
