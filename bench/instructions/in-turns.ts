import { availableParallelism } from 'node:os'

/** Runs a task for each item in order. As many tasks run at a time as there are processors, but at most two. */
export async function inTurns<Item> (items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const left = [...items]
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }))
}
