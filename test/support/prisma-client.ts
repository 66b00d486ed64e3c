import { PrismaPg } from '@prisma/adapter-pg'
import { getPrismaClient } from '@prisma/client/runtime/client'

// The types of Node.js 20 do not have it.
const { WebAssembly }: { WebAssembly: { compile (bytes: Uint8Array): Promise<unknown> } } = Object(globalThis)
const runtime = '@prisma/client/runtime/query_compiler_fast_bg.postgresql'

// What `prisma generate` writes for a schema without models. That program downloads another one first, so the tests do not run it.
const PrismaClient = getPrismaClient({
  clientVersion: '7.10.1',
  engineVersion: 'd1b3f377ca835d73fd50954a5e22128b9ebdd6b8',
  activeProvider: 'postgresql',
  inlineSchema: 'datasource db {\n  provider = "postgresql"\n}\n',
  previewFeatures: [],
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: 'AAAA' },
  compilerWasm: {
    getRuntime: () => import(`${runtime}.mjs`),
    async getQueryCompilerWasmModule () {
      const { wasm }: { wasm: string } = await import(`${runtime}.wasm-base64.mjs`)
      return await WebAssembly.compile(Buffer.from(wasm, 'base64'))
    },
    importName: './query_compiler_fast_bg.js'
  }
})

/** Creates a client of Prisma for a server. */
export function prismaClient (connectionString: string): InstanceType<typeof PrismaClient> {
  return new PrismaClient({ adapter: new PrismaPg({ connectionString }) })
}
