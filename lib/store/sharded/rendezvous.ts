/**
 * Returns the shard of a caller by rendezvous hashing: each shard has a score for the caller, and
 * the highest wins. So a shard that is added takes callers from all others, and moves no other
 * caller. All processes must compute the same, also in later versions.
 *
 * @param shards The number of shards, at least 1.
 * @returns The number of the shard, from 0.
 */
export function shardOf (callerKey: string, shards: number): number {
  const caller = hash(callerKey)
  let best = 0
  let highest = -1
  for (let shard = 0; shard < shards; shard += 1) {
    const score = mix(caller ^ mix(shard + 1))
    if (score > highest) {
      best = shard
      highest = score
    }
  }
  return best
}

/** FNV-1a, of 32 bits. */
function hash (text: string): number {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  }
  return value
}

/**
 * The finalizer of MurmurHash3, of 32 bits. Different integers have different results, so that no
 * two shards have the same score for a caller.
 */
function mix (integer: number): number {
  let value = integer
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}
