// Mistakes in the way of a request: whether it is subject, who its caller is, and what is sent.

export const mutants = [
  {
    file: 'hook.ts',
    what: 'the reply to an unprotected request is not noted',
    from: '        noteReply(request, reply)\n',
    to: '',
    test: 'test/rules/permits.test.ts',
    foundBy: ['permits end with the response of their request, however many there are']
  },
  {
    file: 'hook.ts',
    what: 'a request that passes the hooks again is decided again',
    from: 'let permit = pendingPermitOf(request)\n',
    to: 'let permit: ReturnType<typeof pendingPermitOf> = undefined\n',
    test: 'test/regressions/host-value-in-request-quota.test.ts',
    foundBy: [
      'a request that passes the hooks again is counted once, whatever the host writes in between'
    ]
  },
  {
    file: 'hook.ts',
    what: 'a response that the host began before the hook counts as one since',
    from: '(reply.raw.headersSent && !hadBegun)',
    to: 'reply.raw.headersSent',
    test: 'test/plugin/headers.test.ts',
    foundBy: [
      'a response that the host has begun before the decision has no fields, and continues'
    ]
  },
  {
    file: 'hook.ts',
    what: 'a response counts only once its headers are sent',
    from: 'reply.sent || (reply.raw.headersSent && !hadBegun)',
    to: 'reply.raw.headersSent && !hadBegun',
    test: 'test/regressions/asynchronous-decisions.test.ts',
    foundBy: [
      'a reply that the host hijacks before the decision gets no response of the quota'
    ]
  },
  {
    file: 'hook.ts',
    what: 'a request that the host has answered meanwhile pays',
    from: 'permit.cancel()',
    to: 'permit.end()',
    test: 'test/rules/responded.test.ts',
    foundBy: [
      'what a request has counted that a hook has answered while the store is asked is settled ' +
        'with 0, requests too'
    ]
  },
  {
    file: 'hook.ts',
    what: 'the decision on a request that the host has answered meanwhile is lost',
    from: '      state.permit ??= permit\n',
    to: '',
    test: 'test/rules/responded.test.ts',
    foundBy: ['a request that the host has answered meanwhile still has its decisions']
  },
  {
    file: 'hook.ts',
    what: 'what the host has assigned stays after the decision',
    from: '        state.assigned = undefined\n',
    to: '',
    test: 'test/regressions/host-value-in-request-quota.test.ts',
    foundBy: [
      'a value that the host writes to request.quota before the decision does not affect it, ' +
        'and is read until then'
    ]
  },
  {
    file: 'hook.ts',
    what: 'refusals have no RateLimit headers',
    from: 'if (responder.hasHeaders)',
    to: 'if (responder.hasHeaders && permit.refusal === null)',
    test: 'test/plugin/headers.test.ts',
    foundBy: [
      'the responses to admitted and rejected requests have both fields, and t is equal to ' +
        'Retry-After'
    ]
  },
  {
    file: 'permit/take-permit.ts',
    what: 'a request that the host has answered meanwhile reaches the store',
    from: '    if (hasResponded()) return new Permit(requester, [], null, [])\n',
    to: '',
    test: 'test/rules/responded.test.ts',
    foundBy: [
      'a request that a hook has answered while authentication is asked reaches no store and ' +
        'counts nothing'
    ]
  },
  {
    file: 'permit/take-permit.ts',
    what: 'a mark that fails passes where one quota is in shadow mode',
    from: 'quotas.some((quota) => quota.isEnforced)',
    to: 'quotas.every((quota) => quota.isEnforced)',
    test: 'test/rules/marked-routes.test.ts',
    foundBy: [
      'a function that throws, or returns undefined or the name of no quota, refuses with 503, ' +
        'except in shadow mode'
    ]
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'what is kept of a route is that of its first method',
    from: '?.get(method) ??',
    to: '?.values().next().value ??',
    test: 'test/rules/subject.test.ts',
    foundBy: ['of a route with several methods, each is subject by itself']
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'the quotas of a mark come before those that list the operation',
    from: 'const matches: Match<Each>[] = []\n    for (const quota of this.quotas) {',
    to:
      'const matches: Match<Each>[] = []\n' +
      '    for (const quota of [...marked, ...this.quotas.filter((each) => ' +
      '!marked.includes(each))]) {',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a request is subject once to every quota that lists its operation or that its mark ' +
        'names, default first, then as defined'
    ]
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'a mark replaces the quotas that list the operation',
    from: 'this.#inOrder(marked, operation, listed)',
    to: 'this.#inOrder(marked, operation, [])',
    test: 'test/rules/marked-routes.test.ts',
    foundBy: [
      'a marked route is subject to the quota: beside the quota that lists an operation it could ' +
        'be reached as'
    ]
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'a quota counts a request as often as it lists an operation that it could be',
    from: 'operations.filter(({ quota }, index) => operations[index - 1]?.quota !== quota)',
    to: 'operations',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a request is subject once to every quota that lists its operation or that its mark ' +
        'names, default first, then as defined'
    ]
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'the route / of a scope is matched by its pattern alone',
    from: 'if (isServedWithSlash) return this.#matcherOfTarget(operations)\n',
    to: '',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['the route / of a scope also serves the path that ends with a slash']
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'two colons in the pattern of a route are not one in its path',
    from: "pattern.replaceAll('::', ':')",
    to: 'pattern',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['a colon in the prefix, which the pattern of a route has twice']
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'the authority of HTTP/2 is no host',
    from: "authority === undefined ? ownHost : [ownHost, authority].join(';')",
    to: 'ownHost',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['the authority of an HTTP/2 request is its Host']
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'of a Host and an authority, only the Host is read',
    from: "[ownHost, authority].join(';')",
    to: '(ownHost || String(authority))',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['an HTTP/2 request with an authority and a Host has the segments of both']
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'a Host ends with the authority behind it',
    from: "[ownHost, authority].join(';')",
    to: "[ownHost, authority].join('')",
    test: 'test/rules/spellings.test.ts',
    foundBy: ['an HTTP/2 request with an authority and a Host has the segments of both']
  },
  {
    file: 'subject/paths.ts',
    what: 'the operation / has a slash behind the prefix',
    from: "return path === '/' && this.prefix !== '' ? this.prefix : this.prefix + path",
    to: 'return this.prefix + path',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['the path of the operation / is the prefix, and / where there is none']
  },
  {
    file: 'subject/paths.ts',
    what: 'a prefix with a parameter matches a path without that segment',
    from: 'if (segment === undefined || !isExpected) return null',
    to: 'if (!isExpected) return null',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['a path that ends before the parameter of the prefix']
  },
  {
    file: 'subject/mark.ts',
    what: 'a mark that is null names a quota',
    from: 'mark === null || mark === false',
    to: 'mark === false',
    test: 'test/rules/marked-routes.test.ts',
    foundBy: [
      'a mark is true, a name, an array of names, or a function that returns one; false, null ' +
        'and an empty array are none'
    ]
  },
  {
    file: 'subject/request-target.ts',
    what: 'what is encoded again and again is given up too early',
    from: 'const mostPasses = 8',
    to: 'const mostPasses = 4',
    test: 'test/rules/spellings.test.ts',
    foundBy: [
      'a target that still changes when it is decoded the eighth time is subject to each operation'
    ]
  },
  {
    file: 'caller/caller-key.ts',
    what: 'an authentication that was not verified has a caller',
    from: ' || authentication.authenticated !== true',
    to: '',
    test: 'test/rules/caller.test.ts',
    foundBy: [
      'a request without a caller gets 401, its decision tells the reason, and mistakes of the ' +
        'host are warned of once'
    ]
  },
  {
    file: 'caller/caller-key.ts',
    what: 'a property that the claims inherit is the subject',
    from: "Object.hasOwn(claims, 'sub') ? claims.sub : undefined",
    to: 'claims.sub',
    test: 'test/rules/caller.test.ts',
    foundBy: ['what claims inherit identifies nobody']
  },
  {
    file: 'caller/caller-key.ts',
    what: 'a blank name is an identity',
    from: "value.trim() !== ''",
    to: "value !== ''",
    test: 'test/rules/caller.test.ts',
    foundBy: ['a name of white space alone is no identity, in ASCII and beyond it']
  },
  {
    file: 'caller/caller-key.ts',
    what: 'NUL can be a part of an identity',
    from: "value.includes('\\0') || ",
    to: '',
    test: 'test/rules/caller.test.ts',
    foundBy: [
      'a request without a caller gets 401, its decision tells the reason, and mistakes of the ' +
        'host are warned of once'
    ]
  },
  {
    file: 'caller/request-caller.ts',
    what: 'an error with the status 500 is no outage',
    from: 'Number(error.statusCode) >= 500',
    to: 'Number(error.statusCode) > 500',
    test: 'test/rules/caller.test.ts',
    foundBy: [
      'an authentication that fails results in 401, or in 503 if its error has a statusCode of ' +
        '500 or more; it is logged'
    ]
  },
  {
    file: 'caller/request-caller.ts',
    what: 'claims that are no authentication are warned of for each request',
    from: '      this.#isWarned = true\n',
    to: '',
    test: 'test/rules/caller.test.ts',
    foundBy: [
      'claims are no authentication if the option authentication returns them, and one warning ' +
        'says how to wrap them'
    ]
  },
  {
    file: 'permit/requester.ts',
    what: 'the caller of one authentication is that of another',
    from: 'if (read.reader === reader) return read.caller',
    to: 'return read.caller',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      "a quota's own authentication precedes the plugin's; quotas that share one ask for it once"
    ]
  },
  {
    file: 'permit/requester.ts',
    what: 'each quota asks for its caller again',
    from: '    this.#callers.push({ reader, caller })\n',
    to: '',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      "a quota's own authentication precedes the plugin's; quotas that share one ask for it once"
    ]
  },
  {
    file: 'refusal/rate-limit-headers.ts',
    what: 'a quota in shadow mode has an item in the headers',
    from: ' || !decision.enforced',
    to: '',
    test: 'test/plugin/headers.test.ts',
    foundBy: ['a response has no fields if nothing was counted or enforced']
  },
  {
    file: 'refusal/rate-limit-headers.ts',
    what: 'w is in milliseconds',
    from: 'secondsOf(window)}',
    to: 'window}',
    test: 'test/plugin/headers.test.ts',
    foundBy: [
      'the responses to admitted and rejected requests have both fields, and t is equal to ' +
        'Retry-After'
    ]
  },
  {
    file: 'refusal/rate-limit-headers.ts',
    what: 't is the end of the window although the caller waits for what others hold',
    from: 'retryAfter ?? (windowRemaining === null ? null : secondsOf(windowRemaining))',
    to: 'windowRemaining === null ? retryAfter : secondsOf(windowRemaining)',
    test: 'test/plugin/decisions.test.ts',
    foundBy: [
      'retryAfter, Retry-After and t are the same number, and tell when: what others hold'
    ]
  },
  {
    file: 'refusal/refusal.ts',
    what: 'only a 429 must not be cached',
    from: "    'cache-control': 'no-store'\n  }\n",
    to:
      "    ...(decision.outcome === 'rejected' && { 'cache-control': 'no-store' })\n  }\n",
    test: 'test/rules/refusal.test.ts',
    foundBy: ['no refusal can be cached: a 401, a 429 and a 503 alike']
  },
  {
    file: 'refusal/responder.ts',
    what: 'the policy of the hook stays in the refusal of a permit',
    from: "['RateLimit-Policy', 'RateLimit']",
    to: "['RateLimit']",
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'refuse sends the refusal as the hook would, with the RateLimit headers of the permit in ' +
        'place of those of the hook'
    ]
  },
  {
    file: 'permit/request-state.ts',
    what: 'the reply is not noted if the host has written to request.quota before',
    from: '  request[stateKey].reply = reply\n',
    to: '',
    test: 'test/regressions/host-value-in-request-quota.test.ts',
    foundBy: [
      'the place of a request whose quota the host has written before is free when its response ' +
        'closes'
    ]
  },
  {
    file: 'subject/request-target.ts',
    what: 'the query of an absolute URL is not read',
    from: "target.startsWith('/') ? target.replace(query, '') : target",
    to: "target.replace(query, '')",
    test: 'test/rules/spellings.test.ts',
    foundBy: [
      'every spelling that could reach the operation through a not-found handler is subject, ' +
        'and no other'
    ]
  },
  {
    file: 'subject/paths.ts',
    what: 'the prefix is compared with its letters as they are written',
    from: "this.formOf(segment.replaceAll('::', ':'))",
    to: "segment.replaceAll('::', ':')",
    test: 'test/rules/spellings.test.ts',
    foundBy: ['a prefix in letters of any case, for a router that ignores case']
  },
  {
    file: 'caller/caller-key.ts',
    what: 'whatever is not false or empty marks an authentication as authenticated',
    from: 'authentication.authenticated !== true',
    to: '!authentication.authenticated',
    test: 'test/rules/caller.test.ts',
    foundBy: ['an authentication that is marked with anything but true has no caller']
  },
  {
    file: 'subject/paths.ts',
    what: 'the options of the router are read in one of two places',
    from: 'config[name] === value || config.routerOptions?.[name] === value',
    to: 'config.routerOptions?.[name] === value',
    test: 'test/rules/spellings.test.ts',
    foundBy: [
      'options of the router that the host sets beside its other options, as Fastify 5.0 has them'
    ]
  },
  {
    file: 'earlier/plugin.ts',
    what: 'a preference of 0 is unset',
    from: '(await preference.valueFor(request)) ?? configured',
    to: '(await preference.valueFor(request)) || configured',
    test: 'test/rules/earlier.test.ts',
    foundBy: ['a preference of 0 or less disables the quota, whatever the property']
  },
  {
    file: 'permit/request-state.ts',
    what: 'the reply to an unprotected request is lost if the host has written to request.quota',
    from: 'if (request[stateKey]?.reply === undefined && request[replyKey] !== undefined) {',
    to: 'if (request[stateKey] === undefined && request[replyKey] !== undefined) {',
    test: 'test/regressions/host-value-in-request-quota.test.ts',
    foundBy: [
      'the permit of a handler ends with the response of an unprotected request whose quota the ' +
        'host has written before'
    ]
  },
  {
    file: 'subject/request-matcher.ts',
    what: 'the operation of a marked route is one that its quota lists',
    from:
      '      if (marked.includes(quota)) {\n' +
      '        matches.push({ quota, operation })\n' +
      '      } else {\n' +
      '        const match = listed.find((each) => each.quota === quota)\n' +
      '        if (match !== undefined) matches.push(match)\n' +
      '      }\n',
    to:
      '      const match = listed.find((each) => each.quota === quota)\n' +
      '      if (match !== undefined) matches.push(match)\n' +
      '      else if (marked.includes(quota)) matches.push({ quota, operation })\n',
    test: 'test/rules/marked-routes.test.ts',
    foundBy: [
      'a marked route is subject to the quota: with any parameters, and the operation is its ' +
        'method and pattern'
    ]
  },
  {
    file: 'subject/request-target.ts',
    what: 'a Host can be empty',
    from: 'const plainHost = /^[^/\\\\?#]+$/',
    to: 'const plainHost = /^[^/\\\\?#]*$/',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['a target under an empty Host is not plain']
  },
  {
    file: 'subject/paths.ts',
    what: 'the slash at the end of a prefix stays before that of a path',
    from: 'this.prefix = prefix.replace(/\\/$/, \'\')',
    to: 'this.prefix = prefix',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['the path of the operation has the prefix, in each scope that has one']
  },
  {
    file: 'subject/operation.ts',
    what: 'where no route matched, the path of the operation is the URL',
    from: 'routeOptions?.url ?? \'*\'',
    to: 'routeOptions?.url ?? request.url',
    test: 'test/rules/permits.test.ts',
    foundBy: ['where no route matched, the operation of a permit is *, and not the URL']
  },
  {
    file: 'caller/authentication.ts',
    what: 'an authentication can be changed',
    from: 'return Object.freeze(Object.assign(new Created(), authentication))',
    to: 'return Object.assign(new Created(), authentication)',
    test: 'test/rules/caller.test.ts',
    foundBy: ['an authentication cannot be changed']
  },
  {
    file: 'caller/caller-key.ts',
    what: 'white space beyond ASCII is an identity',
    from: 'first > 0x20 && first < 0x7f',
    to: 'first > 0x20',
    test: 'test/rules/caller.test.ts',
    foundBy: ['a name of white space alone is no identity, in ASCII and beyond it']
  },
  {
    file: 'refusal/rate-limit-headers.ts',
    what: 'a 503 has the items of the stores that have answered',
    from: '  if (permit.refusal?.outcome === \'unavailable\') return []\n',
    to: '',
    test: 'test/plugin/headers.test.ts',
    foundBy: ['a response has no fields if nothing was counted or enforced']
  },
  {
    file: 'refusal/responses.ts',
    what: 'quotaResponses cut the errors of the host',
    from: 'additionalProperties: true',
    to: 'additionalProperties: false',
    test: 'test/plugin/responses.test.ts',
    foundBy: [
      'quotaResponses in the schema of a route changes neither a refusal nor an error of the ' +
        'host with the same status'
    ]
  },
  {
    file: 'subject/mark.ts',
    what: 'the rejection of a mark is not handled',
    from: '    if (typeof name !== \'string\') ignoreRejection(name)\n',
    to: '',
    test: 'test/rules/marked-routes.test.ts',
    foundBy: [
      'a function that throws, or returns undefined or the name of no quota, refuses with 503, ' +
        'except in shadow mode',
      'a mark that rejects ends no process'
    ]
  },
  {
    file: 'hook.ts',
    what: 'a response that the host has begun meanwhile, and not ended, is none',
    from: 'reply.sent || (reply.raw.headersSent && !hadBegun)',
    to: 'reply.sent',
    test: 'test/rules/responded.test.ts',
    foundBy: ['a response that the host has begun meanwhile prevents the operation']
  },
  {
    file: 'refusal/refusal.ts',
    what: 'the rejection of refusalBody is not handled',
    from: '    ignoreRejection(written)\n',
    to: '',
    test: 'test/rules/refusal.test.ts',
    foundBy: [
      'the refusal has the default body if refusalBody fails, and the error is logged',
      'a refusalBody that rejects ends no process'
    ]
  },
  {
    file: 'subject/request-target.ts',
    what: 'a slash that is encoded in lower case is plain',
    from: '/%2f/i',
    to: '/%2F/',
    test: 'test/rules/spellings.test.ts',
    foundBy: ['an encoded slash is not plain, in letters of either case']
  },
  {
    file: 'earlier/plugin.ts',
    what: 'an empty first entry of X-Forwarded-For is no entry',
    from:
      '  if (forwarded.trim() === \'\') return String(raw.socket.remoteAddress)\n' +
      '  return forwarded.replace(/,.*/s, \'\').trim()\n',
    to: '  return forwarded.replace(/,.*/s, \'\').trim() || String(raw.socket.remoteAddress)\n',
    test: 'test/rules/earlier.test.ts',
    foundBy: [
      'the first entry of X-Forwarded-For, trimmed, identifies the caller, even ' +
        'if it is empty, or the address of the peer if the header is missing or blank'
    ]
  }
]
