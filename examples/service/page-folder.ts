import { fileURLToPath } from 'node:url'

/** The folder of the page's markup and style. */
export const pageFolder = fileURLToPath(new URL('../../../examples/service/page/public/', import.meta.url))

/** The folder of the page's compiled scripts. */
export const pageBuild = fileURLToPath(new URL('./page/', import.meta.url))
