export { earlierQuotaPlugin, earlierQuotaPlugin as default } from './earlier/plugin.js'
export type { EarlierQuotaOptions } from './earlier/plugin.js'
export type { EarlierQuotaDecision, EarlierQuotaDecisionMessage } from './channels.js'
