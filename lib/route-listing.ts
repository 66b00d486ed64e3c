import type { FastifyInstance } from 'fastify'

/** A route as Fastify lists it. */
export interface ListedRoute {
  readonly methods: readonly string[]
  readonly pattern: string
  /** The names of its `preHandler` hooks in the order in which they run: the instances' first, then its own. */
  readonly preHandlers: readonly string[]
}

// A line is the tree's drawing, then a node's part of the pattern and its method, or one kind of hook of the node above.
const drawing = /^(?:[│ ] {3})*(?:[├└]── )?/
const node = /^(.+) \(([A-Z-]+(?:, [A-Z-]+)*)\)/
const preHandlers = /^• \(preHandler\) (\[.*\])$/
const indent = 4

/**
 * Lists all routes of the server, those declared before the plugin too, which no `onRoute` hook sees. Fastify tells of
 * them in the text of `printRoutes` alone.
 */
export function listRoutes (fastify: FastifyInstance): ListedRoute[] {
  const routes: { methods: string[], pattern: string, preHandlers: string[] }[] = []
  const parts: string[] = []
  for (const line of fastify.printRoutes({ includeHooks: true, commonPrefix: false }).split('\n')) {
    const text = line.replace(drawing, '')
    const [, part, methods] = node.exec(text) ?? []
    const [, hooks] = preHandlers.exec(text) ?? []
    if (part !== undefined && methods !== undefined) {
      const depth = (line.length - text.length) / indent
      parts.splice(depth - 1, Infinity, part)
      routes.push({ methods: methods.split(', '), pattern: parts.join(''), preHandlers: [] })
    } else if (hooks !== undefined) {
      routes.at(-1)?.preHandlers.push(...namesIn(hooks))
    }
  }
  return routes
}

// A pattern of several lines can look like hooks and be none.
function namesIn (hooks: string): string[] {
  try {
    return JSON.parse(hooks)
  } catch {
    return []
  }
}
