import { isNatural, isObject } from '../../option-checks.js'

/** The receipt of a sharded store, unless it is the text `<shard>:<receipt>`. */
interface ShardReceipt {
  /** The number of the shard. */
  readonly shard: number
  /** What the shard returned. */
  readonly receipt: unknown
}

/** Returns the receipt of a sharded store: a text if that of the shard is one. */
export function receiptOf (shard: number, receipt: unknown): unknown {
  if (typeof receipt === 'string') return `${shard}:${receipt}`
  const ofShard: ShardReceipt = { shard, receipt }
  return ofShard
}

/**
 * Returns which shard a receipt is of, and that shard's own receipt.
 *
 * @throws {TypeError} If it is not a receipt of a sharded store.
 */
export function readReceipt (receipt: unknown): ShardReceipt {
  if (typeof receipt === 'string') {
    const [, shard, own] = /^(\d{1,5}):(.*)$/s.exec(receipt) ?? []
    if (shard !== undefined) return { shard: Number(shard), receipt: own }
  }
  if (isShardReceipt(receipt)) return receipt
  throw new TypeError('a ShardedQuotaStore settles receipts of its own acquisitions')
}

function isShardReceipt (value: unknown): value is ShardReceipt {
  if (!isObject(value)) return false
  const { shard, receipt }: { readonly [Field in keyof ShardReceipt]?: unknown } = value
  return isNatural(shard) && receipt !== undefined
}
