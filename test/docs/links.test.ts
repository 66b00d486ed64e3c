// The links between the documents lead somewhere, headings included.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

const documents = [
  ...readdirSync('.'),
  ...readdirSync('docs').map((name) => `docs/${name}`),
  ...readdirSync('docs/recipes').map((name) => `docs/recipes/${name}`),
  'examples/service/README.md'
].filter((name) => name.endsWith('.md'))

/** The names by which links refer to the headings of a document. */
function anchorsOf (text: string): string[] {
  const headings = [...text.replaceAll(/^ *```.*?^ *```$/gms, '').matchAll(/^#+ (.*)$/gm)]
  return headings.map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
  )
}

/** Returns the links and images of a document that are not addresses on the web. */
function targetsIn (document: string): string[] {
  return [...readFileSync(document, 'utf8').matchAll(/\]\(([^)\s]+)\)|<img src="([^"]+)"/g)]
    .map(([, link, image]) => link ?? image ?? '')
    .filter((target) => !target.startsWith('http'))
}

for (const document of documents) {
  t.test(`the links of ${document} lead somewhere`, async (t) => {
    t.same(
      targetsIn(document).filter((target) => {
        const [path = '', anchor] = target.split('#')
        const file = path === '' ? document : join(dirname(document), path)
        return (
          !existsSync(file) ||
          (anchor !== undefined && !anchorsOf(readFileSync(file, 'utf8')).includes(anchor))
        )
      }),
      []
    )
  })
}

const { files } = JSON.parse(readFileSync('package.json', 'utf8')) as { files: string[] }
/** Matches the documents in the repository that the package leaves out. */
const leftOut = files
  .filter((pattern) => pattern.startsWith('!'))
  .map((pattern) => pattern.slice(1).replaceAll('.', '\\.').replaceAll('*', '[^/]*'))
  .map((pattern) => new RegExp(`^${pattern}(?:/|$)`))

t.test('a document of the package links to no document that the package leaves out', async (t) => {
  const isLeftOut = (path: string) => leftOut.some((pattern) => pattern.test(path))
  const shipped = documents.filter((name) => /^(?:docs|README|CHANGELOG|SECURITY)/.test(name))
  const broken = shipped
    .filter((document) => !isLeftOut(document))
    .flatMap((document) =>
      targetsIn(document).map((target) => join(dirname(document), target.split('#')[0] ?? ''))
    )
    .filter(isLeftOut)
  t.same(broken, [])
})

t.test('the headings that comments in lib, test, bench and chaos name exist', async (t) => {
  const named = ['lib', 'test', 'bench', 'chaos']
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
    )
    .filter((name) => /\.(?:ts|lua|sql)$/.test(name))
    .flatMap((name) =>
      [...readFileSync(name, 'utf8').matchAll(/(docs\/[\w/-]+\.md), "([^"\n]+)"/g)].map(
        ([, document = '', heading = '']) => ({ name, document, heading })
      )
    )
  t.ok(named.length > 20)
  t.same(
    named.filter(
      ({ document, heading }) =>
        !existsSync(document) ||
        !readFileSync(document, 'utf8')
          .split('\n')
          .some((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading)
    ),
    []
  )
})
