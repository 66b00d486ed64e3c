// Prints the files of the library's own tests, which need no server, no browser and no build. `npm run test:lib` runs them.
import { readdirSync, readFileSync } from 'node:fs'

const folders = ['rules', 'plugin', 'stores', 'regressions']
const needsMore = /from '\.\.\/(support\/(redis-server|cutting-proxy|browser|example)|\.\.\/chaos\/\w+)\.js'|['"]build\//

for (const folder of folders) {
  for (const name of readdirSync(`test/${folder}`)) {
    const file = `test/${folder}/${name}`
    if (file.endsWith('.test.ts') && !needsMore.test(readFileSync(file, 'utf8'))) console.log(file)
  }
}
