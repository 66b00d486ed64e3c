export { quotaStoreContract } from './testing/quota-store-contract.js'
export { VirtualClock } from './testing/virtual-clock.js'
export type { QuotaStoreContractCheck, QuotaStoreContractOptions } from './testing/quota-store-contract.js'
