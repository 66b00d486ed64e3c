// The scripts of lib in other languages, Lua and SQL, as servers run them: as they stand there, but
// with each line "-- include layout.part.lua" replaced by that file, which is no script of its own.
import { dirname, join } from 'node:path'

/** Whether the file of this name is a script. */
export function isScript (name) {
  return /(?<!\.part)\.(lua|sql)$/.test(name)
}

/** @param read Returns the text of a file by its name. */
export function scriptText (name, read) {
  return read(name).replace(/^ *-- include (.+)$/gm, (_line, part) =>
    read(join(dirname(name), part))
  )
}
