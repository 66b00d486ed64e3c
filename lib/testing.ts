export {
  quotaStoreContract,
  type QuotaStoreContractCheck,
  type QuotaStoreContractOptions
} from './testing/quota-store-contract.js'
export { VirtualClock } from './testing/virtual-clock.js'
