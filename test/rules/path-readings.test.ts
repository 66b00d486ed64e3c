// "Subject" in docs/rules.md: in which spellings of a path a handler or a proxy behind a non-literal route could read an operation. The
// table calls the matcher itself, so that it also holds targets that no HTTP client sends.
import t, { type Test } from 'tap'
import { OperationMatcher } from '../../lib/subject/operation-matcher.js'
import type { Operation } from '../../lib/subject/operation.js'
import { readRouterOptions, type RouterOptions } from '../../lib/subject/router-options.js'

const analyze = { method: 'POST', path: '/api/analyze' }

interface Setting {
  readonly operations?: readonly Operation[]
  readonly prefix?: string
  readonly router?: Partial<RouterOptions>
}

function matcherOf ({ operations = [analyze], prefix = '', router = {} }: Setting = {}): OperationMatcher {
  return new OperationMatcher([{ name: 'default', operations }], prefix, { ...readRouterOptions({}), ...router })
}

/** Checks which targets reach an operation behind a wildcard, and that the result is the same if no route matches. */
function check (t: Test, setting: Setting, subject: readonly string[], others: readonly string[]): void {
  const matcher = matcherOf(setting)
  for (const pattern of ['/*', undefined]) {
    for (const target of subject) t.not(matcher.match('POST', pattern, target), null, `${pattern ?? 'no route'}: ${target} is subject`)
    for (const target of others) t.equal(matcher.match('POST', pattern, target), null, `${pattern ?? 'no route'}: ${target} is not subject`)
  }
}

t.test('percent-encoding is decoded once and fully, and malformed encodings are kept', async (t) => {
  check(t, {}, [
    '/api/analyze', '/%61pi/analyze', '/%61%70%69/%61nalyze', '/api%2Fanalyze', '/api%2fanalyze', '/api%252fanalyze', '/api%25252Fanalyze', '/%2561pi%2Fanalyze',
    '/%25%36%31pi%2Fanalyze', '/%%361pi%2Fanalyze', '/%6%31pi%2Fanalyze', '/api%2Fanalyz%65', '/./api/analyz%65'
  ], [
    '/api%2Fanalyz', '/api%2Fanalyzer', '/%', '/api%2F%zzanalyze', '/api%2F%25zzanalyze', '/api%2F%256', '/api%2Fanalyze%', '/api%2Fanalyze%6', '/api%2Fanaly%c3%28ze',
    '/api%2Fan%g1lyze', '/api%2Fan%6`lyze', '/api%2Fan%:1lyze', '/api%2Fan%/1lyze', '/api%2Fan%6Glyze', '/api%2F%41nalyze', '/api%2Fa%6Falyze', '/api%2Fa%60alyze',
    // A decoder that accepts digits after F would decode these to 'a'.
    '/api%2F%5hnalyze', '/api%2F%m1nalyze'
  ])
  check(t, { operations: [{ method: 'POST', path: '/a%zz' }] }, ['/./a%zz', '/a%zz/', '/a%25zz', '/.%252Fa%zz'], ['/a%2525zzz', '/a'])
})

t.test('percent-encoding is decoded with all hexadecimal digits, in upper and lower case', async (t) => {
  const letters = { path: '/api/09@AJOZ_`ajoz~' }
  const encoded = (escape: (code: number) => string) => '/api%2F' + [...letters.path.slice(5)].map((letter) => escape(letter.charCodeAt(0))).join('')
  check(t, { operations: [{ method: 'POST', ...letters }] }, [
    encoded((code) => `%${code.toString(16)}`), encoded((code) => `%${code.toString(16).toUpperCase()}`), encoded((code) => `%25${code.toString(16)}`)
  ], [])
})

t.test('encoded characters outside ASCII are decoded', async (t) => {
  check(t, { operations: [{ method: 'POST', path: '/api/\u00fcber/\ud83e\udd8a' }] }, ['/api%2F%C3%BCber/%F0%9F%A6%8A', '/api%2F%25C3%25BCber/%F0%9F%A6%8A', '/api/./\u00fcber/\ud83e\udd8a'], ['/api%2F%C3ber/%F0%9F%A6%8A'])
})

t.test('slashes and backslashes separate segments, and empty segments and single dots are dropped', async (t) => {
  check(t, {}, [
    '/api\\analyze', '\\api\\analyze', '/api%5Canalyze', '/api%5canalyze', '/api//analyze', '/api///analyze', '/api/analyze/', '/api/analyze//', '/./api/analyze', '/api/./analyze',
    '/api/././analyze', '/api/analyze/.', '/api/%2E/analyze', '/api%2F%2e%2Fanalyze', '/api\\.\\analyze\\'
  ], ['/api.analyze', '/api/.analyze', '/.api/analyze', '/api/analyze.', '/api/...', '/api/.../analyze', '/analyze', '/api', '/', ''])
})

t.test('".." is resolved, even if the result leaves the prefix of a proxy', async (t) => {
  check(t, {}, [
    '/x/../api/analyze', '/../api/analyze', '/api/x/../analyze', '/api/analyze/x/..', '/api/x/y/../../analyze', '/api\\x\\..\\analyze', '/api%2Fx%2F..%2Fanalyze', '/api/x/%2e%2E/analyze',
    '/api/..\\api/analyze', '/y/x/../api/analyze', '/y/../z/api/analyze'
  ], ['/api/analyze/..', '/api/analyze/../x', '/api/analyze/x/../y', '/x../api/analyze', '/x/..y/api/analyze', '/y/x/api/analyze', '/x/../analyze', '/x/../api', '/x/../bapi/analyze'])
})

t.test('dot segments can be resolved before the rest of the path is decoded', async (t) => {
  check(t, {}, [
    '/api/analyze/x%2F../..', '/api/analyze/x%2Fy/..', '/api/x%2525252F..%2525252Fanalyze', '/api/analyze/x%252F%2E%2E/..', '/api/analyze/x%25252F%252E%252E/%252E%252E', '/api/analyze/x%2525252F%25252E%25252E/%25252E%25252E',
    '/api/analyze/x%252525252F%2525252E%2525252E/%2525252E%2525252E', '/api/analyze/x%5C../..', '/api/analyze/x/y%2F../..', '/api%2Fanalyze/x/..', '/api/analyze%2Fx/..'
  ], ['/api/analyze/x%25252525252F%252525252E%252525252E/%252525252E%252525252E'])
})

t.test('a query and a fragment end the path, before and after decoding', async (t) => {
  check(t, {}, ['/api%2Fanalyze?x', '/api%2Fanalyze#x', '/api%2Fanalyze?/../..', '/./api/analyze?x/y', '/api%2Fanalyze%3Fx', '/api%2Fanalyze%23x', '/api%2Fanalyze%253Fx', '/api%2Fanalyze%20', '/api%2Fana%09lyze', '/api%2Fanalyze%0A'],
    ['/api?/analyze', '/x?/../api/analyze', '/x#/api%2Fanalyze', '/api%2Fanalyze;x', '/api%2Fanalyze%3Bx', '/api%2Fana%20lyze', '/api%2Fanalyze!', '/api%2Fanalyze~'])
  check(t, { router: { useSemicolonDelimiter: true } }, ['/api%2Fanalyze;x', '/api%2Fanalyze;x/../y', '/api%2Fanalyze?x', '/api%2Fanalyze#x', '/x;/../api/analyze', '/api/x;/%2e%2e/analyze'], ['/api%2Fanalyze%3Bx', '/x;/api/analyze', '/x?;/../api/analyze'])
  check(t, { router: { useSemicolonDelimiter: true }, prefix: '/context' }, ['/./x;/../../api/analyze', '/context/x;/../api/analyze'], ['/./x;/api/analyze'])
})

t.test('the origin of an absolute URL is dropped, and a host can follow a scheme or two slashes', async (t) => {
  check(t, {}, [
    'http://any/api%2Fanalyze', 'https://any:1/api%2Fanalyze', 'HTTPS://any/api%2Fanalyze', 'http://any\\api%2Fanalyze', 'http:///api%2Fanalyze', '//any/api/analyze', '/\\any/api/analyze',
    '\\\\any/api/analyze', '/%2Fany/api/analyze', '/%2fany%2Fapi%2fanalyze', '/%09/any/api/analyze', 'foo://any/api/analyze', 'file:///api/analyze', '//any/api/./analyze', '//any:99999/api/analyze', 'ftp://any:99999/api/analyze', '\\\\any:99999\\api/analyze', '//[/api/analyze'
  ], ['/api//any%20/analyze', '/a%20/api/analyze', '/api//any:99999/analyze', 'http://any/x/api%2Fanalyze', 'http://any?/api%2Fanalyze', 'http://any#/api%2Fanalyze', 'http://api/analyze', '/x://any/api/analyze', '/http://any/api%2Fanalyze', '/x//any/api/analyze', '//any/api/analyzer', '//any', '//[/api/other'])
})

t.test('case matters unless the router ignores it', async (t) => {
  check(t, {}, [], ['/API%2Fanalyze', '/api%2FANALYZE'])
  const router = { caseSensitive: false }
  check(t, { router, prefix: '/Context' }, ['/context/API%2Fanalyze', '/CONTEXT/api%2FANALYZE', '/context/x/../API/analyze'], ['/api%2Fanalyze'])
  check(t, { router, operations: [{ method: 'POST', path: '/API/Analyze' }] }, ['/api%2Fanalyze', '/API%2FANALYZE'], [])
  check(t, { router, prefix: '/:Tenant/Deep' }, ['/acme/deep/api%2Fanalyze', '/ACME/DEEP/API%2FANALYZE'], ['/deep/api%2Fanalyze'])
})

t.test('the prefix is compared segment by segment, and a parameter in it matches any value', async (t) => {
  check(t, { prefix: '/context' }, ['/context/api%2Fanalyze', '/context%2Fapi%2Fanalyze', '/./context/api/analyze', '/context/../api/analyze', '/context/../../api/analyze', '/other/../api/analyze', '/a/b/../api/analyze'],
    ['/api%2Fanalyze', '/contexts/api%2Fanalyze', '/context/x/api%2Fanalyze', '/x/context/api%2Fanalyze', '/contextapi%2Fanalyze', '/context', '/context/', '/context/../api/analyze/x', '/context/../analyze'])
  check(t, { prefix: '/a%20b/c' }, ['/a%2520b/c/api%2Fanalyze'], ['/a%20b/c/api%2Fanalyze', '/a%2520b/api%2Fanalyze'])
  check(t, { prefix: '/:tenant' }, ['/acme/api%2Fanalyze', '/other/./api/analyze'], ['/a/b/api%2Fanalyze', '/api%2Fanalyze', '/api/./analyze'])
  check(t, { prefix: '/v1/:tenant' }, ['/v1/acme/api%2Fanalyze'], ['/v2/acme/api%2Fanalyze', '/v1/api%2Fanalyze'])
})

t.test('the root path can be an operation', async (t) => {
  const operations = [{ method: 'POST', path: '/' }]
  check(t, { operations }, ['/', '//', '/.', '/x/..', '/%2F', '/./', '/%2E'], ['/x', '/x/'])
  check(t, { operations, prefix: '/context' }, ['/context/', '/context/.', '/context%2F', '/context/x/..'], ['/.', '/contexts/.', '/context/x/'])
  check(t, { operations, prefix: '/:tenant' }, ['/acme/', '/acme/.'], ['/.', '/'])
})

t.test('an operation whose path has a trailing slash, empty segments or dots matches the path without them', async (t) => {
  check(t, { operations: [{ method: 'POST', path: '/api/analyze/' }] }, ['/api/analyze/', '/api/analyze', '/api%2Fanalyze'], ['/api/analyzer'])
  check(t, { operations: [analyze, { method: 'POST', path: '/api//deeper/./still/' }] }, ['/api/deeper/still', '/api%2Fdeeper/still'], ['/api/deeper'])
})

t.test('after "..", the last segments are compared, as many as the longest operation has', async (t) => {
  const operations = [analyze, { method: 'POST', path: '/a/b/c/d' }, { method: 'POST', path: '/e' }]
  check(t, { operations }, ['/x/../y/a/b/c/d', '/x/../y/z/api/analyze', '/x/../y/e', '/x/../e'], ['/x/../y/b/c/d', '/x/../y/e/f', '/y/a/b/c/d%2F'])
})

t.test('the first operation in the list is used if a path can be read as several', async (t) => {
  const [encoded, plain, short] = ['/a/%2e%2e/b', '/b', '/d'].map((path) => ({ method: 'POST', path })) as [Operation, Operation, Operation]
  const found = (operations: readonly Operation[], target: string) => matcherOf({ operations }).match('POST', '/*', target)?.operation.path
  for (const operations of [[encoded, plain], [plain, encoded]]) t.equal(found(operations, '/./a/%252e%252e/b'), operations[0]?.path)
  const long = { method: 'POST', path: '/c/d' }
  for (const operations of [[long, short], [short, long]]) {
    t.equal(found(operations, '/x/../y/c/d'), operations[0]?.path)
    t.equal(found(operations, '/x/../c/d'), '/c/d', 'the whole path takes precedence over its last segments')
  }
  t.equal(found([{ method: 'POST', path: '/f/./g' }, { method: 'POST', path: '/f/g/' }], '/f%2Fg'), '/f/./g')
})

t.test('a target that the host has rewritten can begin without a slash', async (t) => {
  check(t, {}, ['%2Fapi/analyze', '%5Capi%5Canalyze', '%2e%2e/x/api/analyze'], ['%2Fapi/analyzer', '%2e%2e/x/analyze'])
})

t.test('a route whose pattern is the path of an operation is subject to the quota, whatever the path of the request is', async (t) => {
  const operations = [analyze, { method: 'POST', path: '/caf\u00e9 au lait' }]
  for (const prefix of ['', '/context', '/:tenant']) {
    const matcher = matcherOf({ operations, prefix })
    for (const operation of operations) t.same(matcher.match('POST', prefix + operation.path, '/anything')?.operation, operation, prefix + operation.path)
  }
})

t.test('a plain pattern matches only its own path, with or without a trailing slash', async (t) => {
  const slashed = { method: 'POST', path: '/api/slashed/' }
  const matcher = matcherOf({ operations: [analyze, slashed] })
  t.equal(matcher.match('POST', '/other', '/other'), null)
  t.same(matcher.match('POST', '/api/slashed', '/api/slashed/')?.operation, slashed)
  t.equal(matcher.match('POST', '/api/slashed', '/api/slashed'), null)
  t.same(matcher.match('POST', '/api/slashed/', '/api/slashed/')?.operation, slashed)
})

t.test('the path is compared even if it differs from the literal pattern of the route', async (t) => {
  t.same(matcherOf().match('POST', '/other', '/api/analyze')?.operation, analyze)
  t.equal(matcherOf().match('POST', '/other', '/x/../api/analyze'), null)
})

t.test('the router options determine how a path is read on a literal route that is not plain', async (t) => {
  const read = (router: Partial<RouterOptions>, target: string) => matcherOf({ router }).match('POST', '/api/%61nalyze', target) !== null
  for (const [router, target] of [[{ caseSensitive: false }, '/API/Analyze'], [{ ignoreTrailingSlash: true }, '/api/analyze/'], [{ ignoreDuplicateSlashes: true }, '/api//analyze'], [{ useSemicolonDelimiter: true }, '/api/analyze;x']] as const) {
    t.equal(read(router, target), true, target)
    t.equal(read({}, target), false, `${target}, without the option`)
  }
})

t.test('the pattern alone determines the operation of a literal route', async (t) => {
  const slashed = { method: 'POST', path: '/api/slashed/' }
  const matcher = matcherOf({ operations: [analyze, slashed, { method: 'POST', path: '/caf\u00e9' }] })
  const found = (pattern: string, method = 'POST') => matcher.matchPattern(method, pattern)?.operation.path ?? null
  t.same(['/api/analyze', '/api/slashed', '/api/slashed/', '/caf\u00e9', '/api/%61nalyze', '/api/sl%61shed'].map((pattern) => found(pattern)),
    ['/api/analyze', '/api/slashed/', '/api/slashed/', '/caf\u00e9', '/api/analyze', '/api/slashed/'])
  t.same(['/other', '/api/analyze/', '/api/%6Fther', '/*', '/api/:operation', '/api/:operation(^a)'].map((pattern) => found(pattern)), Array(6).fill(null))
  t.equal(found('/api/analyze', 'GET'), null)
})

t.test('on a literal route, only the path as the router reads it is compared', async (t) => {
  const matcher = matcherOf()
  for (const target of ['/api%2Fanalyze', '/./api/analyze', '//any/api/analyze']) t.equal(matcher.match('POST', '/other', target), null, target)
  t.same(matcher.match('POST', '/api/analyze', '/anything')?.operation, analyze, 'the pattern is the operation\'s path')
  for (const pattern of ['/api/%61nalyze', '/api/::x']) {
    t.same(matcher.match('POST', pattern, '/api/%61nalyze')?.operation, analyze, `${pattern} is not plain, so the path as the router reads it decides`)
    t.equal(matcher.match('POST', pattern, '/api%2Fanalyze'), null)
  }
})

t.test('only operations with the method of the request are compared', async (t) => {
  const matcher = matcherOf({ operations: [analyze, { method: 'get', path: '/api/other' }] })
  for (const target of ['/api/analyze', '/api%2Fanalyze']) {
    t.equal(matcher.match('GET', '/*', target), null)
    t.equal(matcher.match('post', '/*', target), null, 'the method of a request is case-sensitive')
  }
  t.same(matcher.match('GET', '/*', '/api%2Fother')?.operation, { method: 'GET', path: '/api/other' })
})
