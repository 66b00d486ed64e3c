import { readFile } from 'node:fs/promises'
import fastifyFormbody from '@fastify/formbody'
import Fastify, { type FastifyInstance } from 'fastify'
import type { Provider } from 'oidc-provider'
import { hosts } from '../plugins/hosts.js'
import { pageFolder } from '../routes/page.js'
import { messagePage, signInPage } from './pages.js'
import { madeUpPeople } from './people.js'
import { createProvider } from './provider.js'

interface Interaction { Params: { uid: string } }
interface SignIn extends Interaction { Body: { sub: string, preferredUsername: string } }

/**
 * Starts an OpenID provider on loopback, so that the example can use the real protocol without configuration.
 *
 * @returns The listening server. Its `listeningOrigin` is the issuer.
 */
export async function startDevelopmentProvider (): Promise<FastifyInstance> {
  const app = Fastify({ logger: false, forceCloseConnections: true })
  const people = madeUpPeople()
  // The issuer's URL contains the port, which is only known when the server listens.
  const provider = new Promise<Provider>((resolve, reject) => {
    app.addHook('onListen', async () => { createProvider(app.listeningOrigin, people).then(resolve, reject) })
  })
  await app.register(hosts, { names: [], onLoopback: true })
  await app.register(pages, { provider, people })
  await app.register(protocol, { provider })
  await app.listen({ host: '127.0.0.1', port: 0 })
  await provider
  return app
}

// The pages for users.
async function pages (app: FastifyInstance, { provider, people }: { provider: Promise<Provider>, people: ReturnType<typeof madeUpPeople> }): Promise<void> {
  await app.register(fastifyFormbody)
  app.setErrorHandler(async (_error, _request, reply) => reply.code(400).type('text/html').send(messagePage('This sign-in has expired or is invalid. Please start it again.')))

  app.get('/style.css', async (_request, reply) => reply.type('text/css').send(await readFile(`${pageFolder}style.css`)))
  app.get('/icon.svg', async (_request, reply) => reply.type('image/svg+xml').send(await readFile(`${pageFolder}icon.svg`)))

  app.get<Interaction>('/interaction/:uid', async (request, reply) => {
    const { uid } = await (await provider).interactionDetails(request.raw, reply.raw)
    return reply.type('text/html').send(signInPage(uid, people))
  })

  app.post<SignIn>('/interaction/:uid', async (request, reply) => {
    const person = people.find(({ sub }) => sub === request.body.sub)
    if (person === undefined) throw new Error('there is no user with this subject')
    await (await provider).interactionDetails(request.raw, reply.raw)
    person.preferredUsername = String(request.body.preferredUsername).slice(0, 40)
    reply.hijack()
    await (await provider).interactionFinished(request.raw, reply.raw, { login: { accountId: person.sub } })
  })

  app.post<Interaction>('/interaction/:uid/abort', async (request, reply) => {
    await (await provider).interactionDetails(request.raw, reply.raw)
    reply.hijack()
    await (await provider).interactionFinished(request.raw, reply.raw, { error: 'access_denied', error_description: 'The sign-in was cancelled.' })
  })
}

// All other requests belong to the protocol, and the provider reads them itself.
async function protocol (app: FastifyInstance, { provider }: { provider: Promise<Provider> }): Promise<void> {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => { done(null) })
  app.all('/*', async (request, reply) => {
    const answer = (await provider).callback()
    reply.hijack()
    await answer(request.raw, reply.raw)
  })
}
