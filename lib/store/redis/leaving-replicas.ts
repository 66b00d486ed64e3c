/**
 * Returns a function that awaits a reply and leaves a server that has become a replica, at most
 * once a second. The server keeps its connections, and no option makes the client leave it. After
 * `QUIT`, it closes the connection, and the client connects again.
 */
export function leavingReplicas (quit: () => void): (reply: Promise<unknown>) => Promise<unknown> {
  let leftAt = -Infinity
  return async (reply) => {
    try {
      return await reply
    } catch (error) {
      if (
        error instanceof Error &&
        /READONLY|ReadOnly/.test(error.message) &&
        performance.now() - leftAt >= 1_000
      ) {
        leftAt = performance.now()
        // By the next turn, the connection with the error is idle again.
        setImmediate(quit)
      }
      throw error
    }
  }
}
