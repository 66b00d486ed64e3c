// The process of `Programs`: runs the programs that it is sent, and sends back what each one
// prints, or the error that ended it.
import { pathToFileURL } from 'node:url'
import { format } from 'node:util'

const kept = new Set(Object.keys(process.env))
let runs = 0

console.log = (...values) => {
  process.send?.(format(...values))
}
process.on(
  'message',
  ({ program, environment }: { program: string; environment: Record<string, string> }) => {
    for (const name of Object.keys(process.env)) {
      if (!kept.has(name)) Reflect.deleteProperty(process.env, name)
    }
    Object.assign(process.env, environment)
    // Another query makes Node.js run a module again.
    import(`${pathToFileURL(program).href}?${++runs}`).catch((error: unknown) => {
      process.send?.({ failure: String(error) })
    })
  }
)
// Programs that listen would keep the process running after the tests.
process.once('disconnect', () => {
  process.exit()
})
