import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { formatType } from './errors.js'
import { createQuotaHook } from './hook.js'
import {
  configurationIn,
  limitVariables,
  readEnvironment,
  type QuotaConfig
} from './limit/configuration.js'
import { variableOf } from './limit/limit.js'
import { Preferences } from './limit/preferences.js'
import { createQuotaAcquirer, type QuotaAcquirer } from './permit/acquire.js'
import { Closing } from './permit/closing.js'
import { DecisionLog } from './permit/decision-log.js'
import { createForgetter, type QuotaForgetter } from './permit/forget.js'
import { createQuotaResumer, type QuotaResumer } from './permit/handing-over/resume.js'
import { QuotaList } from './permit/quota-list.js'
import { QuotaLog } from './permit/quota-log.js'
import type { Quota, QuotaInfo } from './permit/quota.js'
import { PermitHandle, type QuotaPermit } from './permit/quota-permit.js'
import { stateOf } from './permit/request-state.js'
import type { PermitServer } from './permit/requester.js'
import { addServerQuotas } from './permit/server-quotas.js'
import { createStandingReader, type QuotaStandingReader } from './permit/standing.js'
import { Responder } from './refusal/responder.js'
import { required } from './required.js'
import { assertDecorators, chooseStore, preferencesOf, Registrations } from './start/host.js'
import type { QuotaOptions } from './start/options.js'
import { assertQuotaOptions } from './start/plugin-checks.js'
import { addDefault, defineQuotas, describeQuotas } from './start/quotas.js'
import { report } from './start/report.js'
import { markOf, Routes, type KnownRoute } from './start/routes.js'
import { settleBeforeClosing } from './start/server-end.js'
import { logStoreChanges } from './start/store-changes.js'
import { noteVariables, warnOfUnreadVariables } from './start/variables.js'
import type { QuotaStore } from './store/store.js'
import { defaultQuota, quotasOf, type QuotaByName, type RouteMark } from './subject/mark.js'
import { Paths } from './subject/paths.js'
import { RequestMatcher } from './subject/request-matcher.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The store that holds the quota's counters. */
    quotaStore: QuotaStore
    /** The configured limits, read at start-up. */
    quotaConfig: QuotaConfig
    /** The quotas, in their order. */
    readonly quotas: readonly QuotaInfo[]
    /** Takes a permit in the middle of a handler, or without a request. */
    quotaAcquire: QuotaAcquirer
    /** Returns a permit that was handed over. */
    quotaResume: QuotaResumer
    /** Returns the standing of a caller without counting anything. */
    quotaStanding: QuotaStandingReader
    /** Removes a caller's own counter in one quota, or in every one. */
    quotaForget: QuotaForgetter
  }
  interface FastifyRequest {
    /**
     * What the request has of its quotas. It is there for every request, and empty for one that is
     * subject to no quota, or has not passed the hook of the plugin yet.
     */
    readonly quota: QuotaPermit
  }
  interface FastifyContextConfig {
    /** The mark of the route: its quotas beside those that list its operation. */
    quota?: RouteMark
  }
}

const registrations = new Registrations()

async function plugin (fastify: FastifyInstance, options: QuotaOptions): Promise<void> {
  assertQuotaOptions(options)
  registrations.assertFirst(fastify)
  const store = chooseStore(fastify, options.store)
  const defined = defineQuotas(options, store)
  assertDecorators(fastify)
  const paths = new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  // Everything that can fail comes first, so that a registration that failed leaves nothing behind.
  const environment = await readEnvironment(fastify, options.dotenv)
  const variables = limitVariables(defined)
  const configuration = configurationIn(environment, variables)
  noteVariables(fastify, environment.keys(), Object.keys(variables.defaults))
  registrations.add(fastify)

  const settings = defined.map((quota) => ({
    ...quota,
    // There is no variable of a limit that is a function.
    configured: configuration[variableOf(quota.preference)] ?? quota.configured
  }))
  const preferences = new Preferences(fastify.log, fastify.server, options.preferenceTimeout)
  const given = options.preferences
  const reader = given === false ? undefined : given
  preferences.reader = reader
  const quotas = new QuotaList(settings, preferences)
  const named: QuotaByName<Quota> = (name, where) => quotas.named(name, where)
  const described = describeQuotas(settings)
  const namedByRequest: QuotaByName<Quota> = (name, where) => {
    // A route that was declared before the plugin can be marked with it.
    if (name === defaultQuota) addDefault(described, settings)
    // What a function of the host returned is not shown in the log.
    return quotas.named(name, where, formatType)
  }
  const server = {
    server: fastify.server,
    decisionLog: new DecisionLog(),
    quotaLog: new QuotaLog(fastify.log),
    closing: new Closing(),
    defaultQuota: required(quotas.all[0], 'the default quota'),
    hostTimeout: preferences.timeout
  }
  const responder = new Responder(options)
  const handlerPermits = { log: fastify.log, quotas, server, refuser: responder }
  const requests = new RequestMatcher(quotas.all, paths, namedByRequest)
  const routes = new Routes(
    fastify,
    paths,
    defined.flatMap(({ operations }) => operations)
  )
  fastify.decorateRequest('quota', quotaAccessor(server, responder))
  if (!fastify.hasDecorator('quotaStore')) fastify.decorate('quotaStore', store)
  if (reader !== undefined && !fastify.hasDecorator('preferences')) {
    fastify.decorate('preferences', reader)
  }
  fastify.decorate('quotaConfig', configuration)
  fastify.decorate('quotas', described)
  addServerQuotas(fastify.server, {
    quotas: described,
    preferences: () =>
      preferences.reader === undefined ? [] : settings.map(({ preference }) => preference)
  })
  fastify.decorate('quotaAcquire', createQuotaAcquirer(handlerPermits))
  fastify.decorate(
    'quotaResume',
    createQuotaResumer(quotas, server, responder, fastify.log)
  )
  fastify.decorate('quotaStanding', createStandingReader(quotas, server, fastify.log))
  fastify.decorate('quotaForget', createForgetter(quotas))
  fastify.addHook('onRoute', function quotaRoute (declared) {
    for (const method of [declared.method].flat()) {
      const route = { method, pattern: declared.url, options: declared }
      assertMark(route, named)
      routes.add(route)
    }
  })
  fastify.addHook('preHandler', createQuotaHook(requests, server, responder))
  fastify.addHook('onReady', async function quotaReady () {
    preferences.reader = preferencesOf(fastify, given)
    if (routes.areMarkedWith(defaultQuota)) addDefault(described, settings)
    report(fastify, settings, routes)
    warnOfUnreadVariables(fastify)
  })
  const stopLogging = logStoreChanges(
    fastify,
    settings.map(({ store }) => store)
  )
  fastify.addHook('onClose', async function quotaClose () {
    stopLogging()
  })
  settleBeforeClosing(fastify, server, quotas)
}

/**
 * The request decorator `quota`. An accessor, because a plain value would not reach the requests of
 * scopes that existed before the decoration. It is made when it is asked for. Assigning to it has
 * no effect.
 */
function quotaAccessor (server: PermitServer, responder: Responder) {
  return {
    getter (this: FastifyRequest): QuotaPermit {
      const state = stateOf(this)
      state.handle ??= new PermitHandle(state, server, responder)
      return state.handle
    },
    setter (): void {}
  }
}

/** Throws an `UnknownQuotaError` if the mark of a route names a quota that does not exist. */
function assertMark (route: KnownRoute, named: QuotaByName<Quota>): void {
  const mark = markOf(route)
  // What a function returns is checked for each request.
  if (mark !== undefined && typeof mark !== 'function') {
    quotasOf(mark, `${route.method} ${route.pattern}`, named)
  }
}

/**
 * Limits how often each authenticated caller can send requests to the protected operations of a
 * service, and what they cost.
 *
 * Register it on the Fastify instance that declares the protected routes, or on one of its parents:
 * `await fastify.register(quotaPlugin, options)`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if an environment variable such as
 *   `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 * @throws {SecondRegistrationError} `FST_ERR_LLM_QUOTA_SECOND_REGISTRATION`, if the plugin already
 *   handles the same requests.
 * @throws {DecoratorError} `FST_ERR_LLM_QUOTA_DECORATOR`, if the host already has a decorator with
 *   a name that the plugin needs.
 */
export const quotaPlugin = createPlugin(plugin, {
  fastify: '5.x || ^6.0.0-alpha.4',
  name: 'fastify-llm-quota'
})
