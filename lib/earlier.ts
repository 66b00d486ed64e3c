export {
  earlierQuotaPlugin,
  earlierQuotaPlugin as default,
  type EarlierQuotaOptions
} from './earlier/plugin.js'
export type { EarlierQuotaDecision, EarlierQuotaDecisionMessage } from './channels.js'
