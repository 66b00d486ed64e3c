import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { register, Registry, type Metric } from 'prom-client'
import { OptionError } from '../errors.js'
import { assertOptions, registerOptions, withFunctions } from '../option-checks.js'
import { isPromise } from '../promises.js'
import { required } from '../required.js'
import { decisionsName } from './decision-metrics.js'
import { Recorder } from './recorder.js'

/** A registry of `prom-client`, of version 13 or later, for either content type. */
export type QuotaMetricsRegistry = Pick<Registry, 'getSingleMetric' | 'metrics' | 'registerMetric'>

/**
 * Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are
 * also accepted.
 */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry | undefined
}

// By the metric of the decisions in a registry, which the host can clear. All servers that use the
// registry share its metrics.
const recorders = new WeakMap<object, Recorder>()

const assertRegistry = withFunctions(
  'a registry of prom-client',
  'registerMetric',
  'getSingleMetric'
)

async function plugin (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  assertOptions<QuotaMetricsOptions>(options, { ...registerOptions, registry: assertRegistry })
  assertVersion()
  recorderOf(options.registry ?? register).record(fastify)
}

/** Throws an `OptionError` if the installed version of `prom-client` cannot collect metrics. */
function assertVersion (): void {
  // Since version 13, `collect` is called, and metrics are collected asynchronously.
  const metrics: unknown = new Registry().metrics()
  if (isPromise(metrics)) return
  const rule = 'must be a registry of prom-client 13 or later'
  throw new OptionError('registry', rule, register, () => 'one of an older version')
}

function recorderOf (registry: QuotaMetricsRegistry): Recorder {
  const known: object | undefined = registry.getSingleMetric(decisionsName)
  const knownRecorder = known === undefined ? undefined : recorders.get(known)
  if (knownRecorder !== undefined) return knownRecorder
  // In a registry of its own first, so that a registration that failed leaves no metric behind.
  const own = new Registry()
  const recorder = new Recorder(own)
  const names = own.getMetricsAsArray().map(({ name }) => name)
  for (const name of names) assertUnused(name, registry)
  for (const name of names) registry.registerMetric(metricIn(own, name))
  recorders.set(metricIn(own, decisionsName), recorder)
  return recorder
}

function metricIn (registry: Registry, name: string): Metric {
  return required(registry.getSingleMetric(name), `the metric ${name}`)
}

function assertUnused (name: string, registry: QuotaMetricsRegistry): void {
  if (registry.getSingleMetric(name) === undefined) return
  throw new OptionError('registry', `must not have another metric ${name}`, registry)
}

/**
 * Counts the quota's decisions of the whole server in a registry of `prom-client`, version 13 or
 * later. It adds no route, and no label identifies a caller. `docs/operating.md` lists the metrics.
 *
 * Register it before or after `quotaPlugin`: `await fastify.register(quotaMetricsPlugin, options)`.
 * Servers with the same registry share its metrics. A second registration with the same server and
 * registry has no effect, so no decision is counted twice.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 */
export const quotaMetricsPlugin = createPlugin(plugin, {
  fastify: '5.x || ^6.0.0-alpha.4',
  name: 'fastify-llm-quota-metrics'
})
