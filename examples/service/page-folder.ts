import { fileURLToPath } from 'node:url'

/** Where the page's markup and style are. */
export const pageFolder = fileURLToPath(new URL('../../../examples/service/page/public/', import.meta.url))

/** Where the page's programs are, once they are built. */
export const pageBuild = fileURLToPath(new URL('./page/', import.meta.url))
