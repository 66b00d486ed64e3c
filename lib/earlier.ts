export { earlierQuotaPlugin, earlierQuotaPlugin as default } from './earlier/plugin.js'
export type {
  EarlierQuotaDecision,
  EarlierQuotaDecisionMessage,
  EarlierQuotaOptions
} from './earlier/plugin.js'
