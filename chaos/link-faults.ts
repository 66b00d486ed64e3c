import type { FaultyProxy } from './faulty-proxy.js'
import type { Fault } from './incident.js'

/** Faults of the network between an instance and a server. */
export function linkFaults ({
  noticesSilence
}: {
  readonly noticesSilence: boolean
}): Record<string, Fault<FaultyProxy>> {
  const end = (proxy: FaultyProxy) => async (): Promise<void> => {
    proxy.recover()
  }
  return {
    cut (proxy, random) {
      const replies = random.integer(1, 8)
      return {
        description: `${replies} replies are cut in the middle`,
        lasts: 200,
        begin: () => {
          proxy.cut(replies)
        },
        end: end(proxy)
      }
    },
    reset: (proxy, random) => ({
      description: 'connections are reset',
      lasts: random.integer(50, 200),
      begin: () => {
        proxy.reset()
      }
    }),
    unreachable: (proxy, random) => ({
      description: 'connections are reset and rejected',
      lasts: random.integer(50, 2_500),
      begin () {
        proxy.reject(true)
        proxy.reset()
      },
      end: end(proxy)
    }),
    silence: (proxy, random) => ({
      description: 'connections fall silent without an end',
      lasts: random.integer(1_000, 1_500),
      begin: () => {
        proxy.silence()
      },
      // If the client does not close silent connections, the network resets them.
      async end () {
        if (!noticesSilence) proxy.endSilence()
      }
    })
  }
}
