export { quotaPlugin, quotaPlugin as default } from './plugin.js'
export type { AnyReply, AnyRequest, OfRequest, OfRequestOrNone } from './any-request.js'
export {
  quotaDecisions,
  quotaSettlements,
  type InsuredQuotaStoreChange,
  type QuotaDecisionMessage,
  type QuotaSettlement
} from './channels.js'
export {
  DecoratorError,
  EnvironmentError,
  OptionError,
  OverloadError,
  SecondRegistrationError,
  StandingError,
  TimeLimitError,
  UnknownQuotaError
} from './errors.js'
export type { QuotaTimers } from './time-limit.js'
export type { QuotaNames, RouteMark } from './subject/mark.js'
export { protectedOperations, type Operation } from './subject/operation.js'
export type { DotenvOptions, QuotaConfig } from './limit/configuration.js'
export type { LimitName } from './limit/limit-kinds.js'
export type { PreferenceReader } from './limit/preferences.js'
export {
  anonymousAuthentication,
  localAuthentication,
  tokenAuthentication,
  type AnonymousAuthentication,
  type Authentication,
  type LocalAuthentication,
  type TokenAuthentication
} from './caller/authentication.js'
export { callerKey, type UnidentifiedReason } from './caller/caller-key.js'
export type { AuthenticationReader } from './caller/request-caller.js'
export { estimateOf, type Estimate, type EstimateOptions } from './model/estimate.js'
export type { ModelBody } from './model/meter.js'
export { UsageReader } from './model/reader.js'
export { usageOf, type ModelUsage } from './model/usage.js'
export type { AcquireOptions, QuotaAcquirer } from './permit/acquire.js'
export type { Amounts } from './permit/amounts.js'
export type { Cost, CostRange } from './permit/cost.js'
export type {
  CountedDecision,
  DisabledDecision,
  QuotaDecision,
  UnauthenticatedDecision,
  UnavailableDecision,
  UnavailableReason
} from './permit/decision.js'
export type { QuotaForgetter } from './permit/forget.js'
export type { GivenQuotas } from './permit/given-costs.js'
export type { Interruption, MeterOptions } from './permit/meter.js'
export type { QuotaInfo } from './permit/quota.js'
export type { QuotaPermit } from './permit/quota-permit.js'
export type { QuotaResumer } from './permit/handing-over/resume.js'
export type { FromUsage } from './permit/from-usage.js'
export type { QuotaStanding, QuotaStandingReader } from './permit/standing.js'
export { InsuredQuotaStore } from './store/insured/insured-store.js'
export type {
  InsuredQuotaStoreOptions,
  InsuredQuotaStoreState,
  PrimaryQuotaStore
} from './store/insured/options.js'
export { MemoryQuotaStore, type MemoryQuotaStoreOptions } from './store/memory/memory-store.js'
export { ShardedQuotaStore } from './store/sharded/sharded-store.js'
export type {
  Acquisition,
  CallerCount,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from './store/store.js'
export { anthropicRefusal, openaiRefusal } from './refusal/api-refusals.js'
export type { RefusalBody, RefusalBodyWriter } from './refusal/refusal.js'
export { quotaResponses, type QuotaResponse } from './refusal/responses.js'
export type {
  Amount,
  CallerLimit,
  Limit,
  QuotaDefinition,
  QuotaOptions,
  Wait
} from './start/options.js'
export type { Start } from './limit/window-start.js'
