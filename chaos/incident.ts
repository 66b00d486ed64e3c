import { Random } from './random.js'

/** A fault with its random parameters. */
export interface Incident {
  readonly description: string
  /** The duration in milliseconds. */
  readonly lasts: number
  begin(): unknown
  /**
   * Ends the fault. Returns how often a server can have lost a caller's count; nothing if it
   * cannot.
   */
  end?(): Promise<number | void>
}

/** A kind of fault of a server or of a connection. */
export type Fault<Subject> = (subject: Subject, random: Random) => Incident

/** The numbers of the servers that an incident affects. */
interface AffectedServers {
  readonly servers: ReadonlySet<number>
}

/** Draws an incident: one subject, or all of them at once, and the parameters. */
export type Draw = (random: Random) => Incident & AffectedServers

/**
 * Returns a way to draw each of the faults.
 *
 * @param serversOf Returns the numbers of the servers that a fault of this subject affects.
 */
export function drawsOf<Subject> (
  name: string,
  subjects: readonly Subject[],
  faults: Readonly<Record<string, Fault<Subject>>>,
  serversOf: (place: number) => number[]
): Record<string, Draw> {
  if (subjects.length === 0) return {}
  const places = subjects.map((_, place) => place)
  return Object.fromEntries(
    Object.entries(faults).map(([kind, fault]) => [
      kind,
      (random) => {
        const chosen = random.pick([places, ...places.map((place) => [place])])
        const seed = random.integer(0, 2 ** 32 - 1)
        const incidents = subjects
          .filter((_, place) => chosen.includes(place))
          .map((subject) => fault(subject, new Random(seed)))
        const { description, lasts } = random.pick(incidents)
        return {
          description: `${name} ${chosen.join(' and ')} for ${lasts} ms: ${description}`,
          lasts,
          servers: new Set(chosen.flatMap(serversOf)),
          begin: () => Promise.all(incidents.map((incident) => incident.begin())),
          end: async () =>
            Math.max(
              ...(await Promise.all(
                incidents.map(async (incident) => (await incident.end?.()) ?? 0)
              ))
            )
        }
      }
    ])
  )
}
