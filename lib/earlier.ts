export { earlierQuotaPlugin, earlierQuotaPlugin as default } from './earlier/plugin.js'
export type { EarlierQuotaDecision, EarlierQuotaDecisionMessage } from './earlier/decision.js'
export type { EarlierQuotaOptions } from './earlier/plugin.js'
