// A uid is bytes, any of them. Everywhere in Pulsewheel its text is percent-encoded; here it is
// shown and typed with as much of it readable as can be read without being fooled. What is shown
// can be typed back in, and means the same bytes.

const PLAIN = /^[A-Za-z0-9._~-]$/;
// Controls and invisible or reordering characters, all kinds of blanks, and the escape itself.
const NOT_SHOWN = /[\p{C}\p{Z}%]/u;

const hex = (byte) => "%" + byte.toString(16).toUpperCase().padStart(2, "0");

/** The bytes that a percent-encoded text stands for. */
function decode(encoded) {
  const bytes = [];
  for (let i = 0; i < encoded.length; ++i) {
    if (encoded[i] === "%") {
      bytes.push(parseInt(encoded.slice(i + 1, i + 3), 16));
      i += 2;
    } else {
      bytes.push(encoded.charCodeAt(i));
    }
  }
  return Uint8Array.from(bytes);
}

/** How many bytes the UTF-8 character takes that begins with `byte`; 0: none does. */
function characterLength(byte) {
  if (byte < 0x80) return 1;
  if (byte < 0xc2 || byte > 0xf4) return 0;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/**
 * The uid for people: `encoded`, as the daemon writes it, with each visible character as itself and
 * all other bytes still as %XX. To be put into a page as text and isolated (<bdi>): letters of
 * scripts that run from right to left stay letters.
 */
export function readable(encoded) {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const bytes = decode(encoded);
  let shown = "";
  for (let i = 0; i < bytes.length;) {
    const length = characterLength(bytes[i]);
    let character = "";
    try {
      character = utf8.decode(bytes.subarray(i, i + length));
    } catch {
      // No UTF-8 from here on: this byte alone is shown as such.
    }
    if (character && !NOT_SHOWN.test(character)) {
      shown += character;
      i += length;
    } else {
      shown += hex(bytes[i++]);
    }
  }
  return shown;
}

/**
 * What somebody typed, as the daemon wants it: text stands for its UTF-8, %XX for a byte. Throws an
 * Error that says what is wrong.
 */
export function encode(typed) {
  const utf8 = new TextEncoder();
  let encoded = "";
  for (let i = 0; i < typed.length;) {
    const character = String.fromCodePoint(typed.codePointAt(i));
    if (character === "%") {
      const digits = typed.slice(i + 1, i + 3);
      if (!/^[0-9a-fA-F]{2}$/.test(digits)) {
        throw new Error("A % is followed by two hexadecimal digits; a % itself is written %25.");
      }
      encoded += hex(parseInt(digits, 16));
      i += 3;
    } else {
      encoded += PLAIN.test(character) ? character : Array.from(utf8.encode(character), hex).join("");
      i += character.length;
    }
  }
  // One spelling for each uid: %41 is what the daemon calls A.
  return encoded.replace(/%[0-7][0-9A-F]/g, (escape) => {
    const character = String.fromCharCode(parseInt(escape.slice(1), 16));
    return PLAIN.test(character) ? character : escape;
  });
}
