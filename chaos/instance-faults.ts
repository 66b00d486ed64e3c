import type { Fault } from './incident.js'
import type { InstanceProcess } from './instance-process.js'

/** Faults of an instance. */
export const instanceFaults: Readonly<Record<string, Fault<InstanceProcess>>> = {
  stall (instance, random) {
    const milliseconds = random.integer(30, 400)
    const times = random.integer(1, 5)
    return {
      description: `the event loop stalls for ${milliseconds} ms, ${times} times in a row`,
      lasts: milliseconds * times + 50,
      stalls: milliseconds * times,
      begin: () => {
        instance.tell('stall', milliseconds, times)
      }
    }
  },
  freezeInstance (instance, random) {
    const lasts = random.integer(50, 600)
    return {
      description: 'the process is frozen',
      lasts,
      stalls: lasts,
      begin: () => {
        instance.signal('SIGSTOP')
      },
      end: async () => {
        instance.signal('SIGCONT')
      }
    }
  }
}

/** Faults of the clock that all instances give to their stores. */
export const clockFaults: Readonly<Record<string, Fault<readonly InstanceProcess[]>>> = {
  stepClock (instances, random) {
    const seconds = random.pick([-1, 1]) * random.integer(1, 600)
    return {
      description: `the clock of the counters steps by ${seconds} s`,
      lasts: 100,
      begin: () => {
        for (const instance of instances) instance.tell('stepClock', seconds * 1_000)
      },
      // The clocks of the instances do not step at the same instant, so a window can end on one
      // instance before it ends on the other.
      end: async () => 2
    }
  }
}
