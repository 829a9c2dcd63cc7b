// Writes unicode.txt: the Unicode data for \p{..} and case-insensitive matching in ECMA-262, as the running RegExp
// engine defines them:   node make_unicode.mjs > unicode.txt
//
// There is one line for each property: a key, the names that ECMA-262 allows for it, and its code points as pairs
// "gap.length" in base 36. The gap counts from the end of the previous range. ".length" is omitted if it is 1.
// Keys: gc (General_Category), sc (Script), scx (Script_Extensions, only if it differs from the script),
// bin (binary property). ecma_chars.py computes unions such as gc=L, and Any, ASCII and Assigned.
// The line "fold" contains the orbits of simple case folding: the hexadecimal members of each class, joined by "=".

const categories = `Lu Uppercase_Letter, Ll Lowercase_Letter, Lt Titlecase_Letter, Lm Modifier_Letter, Lo Other_Letter,
  Mn Nonspacing_Mark, Mc Spacing_Mark, Me Enclosing_Mark, Nd Decimal_Number digit, Nl Letter_Number, No Other_Number,
  Pc Connector_Punctuation, Pd Dash_Punctuation, Ps Open_Punctuation, Pe Close_Punctuation, Pi Initial_Punctuation,
  Pf Final_Punctuation, Po Other_Punctuation, Sm Math_Symbol, Sc Currency_Symbol, Sk Modifier_Symbol, So Other_Symbol,
  Zs Space_Separator, Zl Line_Separator, Zp Paragraph_Separator, Cc Control cntrl, Cf Format, Cs Surrogate,
  Co Private_Use, Cn Unassigned`;

const scripts = `
  Adlam Adlm, Ahom, Anatolian_Hieroglyphs Hluw, Arabic Arab, Armenian Armn, Avestan Avst, Balinese Bali, Bamum Bamu,
  Bassa_Vah Bass, Batak Batk, Bengali Beng, Beria_Erfe Berf, Bhaiksuki Bhks, Bopomofo Bopo, Brahmi Brah, Braille Brai,
  Buginese Bugi, Buhid Buhd, Canadian_Aboriginal Cans, Carian Cari, Caucasian_Albanian Aghb, Chakma Cakm, Cham,
  Cherokee Cher, Chorasmian Chrs, Common Zyyy, Coptic Copt Qaac, Cuneiform Xsux, Cypriot Cprt, Cypro_Minoan Cpmn,
  Cyrillic Cyrl, Deseret Dsrt, Devanagari Deva, Dives_Akuru Diak, Dogra Dogr, Duployan Dupl,
  Egyptian_Hieroglyphs Egyp, Elbasan Elba, Elymaic Elym, Ethiopic Ethi, Garay Gara, Georgian Geor, Glagolitic Glag,
  Gothic Goth, Grantha Gran, Greek Grek, Gujarati Gujr, Gunjala_Gondi Gong, Gurmukhi Guru, Gurung_Khema Gukh,
  Han Hani, Hangul Hang, Hanifi_Rohingya Rohg, Hanunoo Hano, Hatran Hatr, Hebrew Hebr, Hiragana Hira,
  Imperial_Aramaic Armi, Inherited Zinh Qaai, Inscriptional_Pahlavi Phli, Inscriptional_Parthian Prti, Javanese Java,
  Kaithi Kthi, Kannada Knda, Katakana Kana, Kawi, Kayah_Li Kali, Kharoshthi Khar, Khitan_Small_Script Kits,
  Khmer Khmr, Khojki Khoj, Khudawadi Sind, Kirat_Rai Krai, Lao Laoo, Latin Latn, Lepcha Lepc, Limbu Limb,
  Linear_A Lina, Linear_B Linb, Lisu, Lycian Lyci, Lydian Lydi, Mahajani Mahj, Makasar Maka, Malayalam Mlym,
  Mandaic Mand, Manichaean Mani, Marchen Marc, Masaram_Gondi Gonm, Medefaidrin Medf, Meetei_Mayek Mtei,
  Mende_Kikakui Mend, Meroitic_Cursive Merc, Meroitic_Hieroglyphs Mero, Miao Plrd, Modi, Mongolian Mong, Mro Mroo,
  Multani Mult, Myanmar Mymr, Nabataean Nbat, Nag_Mundari Nagm, Nandinagari Nand, New_Tai_Lue Talu, Newa, Nko Nkoo,
  Nushu Nshu, Nyiakeng_Puachue_Hmong Hmnp, Ogham Ogam, Ol_Chiki Olck, Ol_Onal Onao, Old_Hungarian Hung,
  Old_Italic Ital, Old_North_Arabian Narb, Old_Permic Perm, Old_Persian Xpeo, Old_Sogdian Sogo,
  Old_South_Arabian Sarb, Old_Turkic Orkh, Old_Uyghur Ougr, Oriya Orya, Osage Osge, Osmanya Osma, Pahawh_Hmong Hmng,
  Palmyrene Palm, Pau_Cin_Hau Pauc, Phags_Pa Phag, Phoenician Phnx, Psalter_Pahlavi Phlp, Rejang Rjng, Runic Runr,
  Samaritan Samr, Saurashtra Saur, Sharada Shrd, Shavian Shaw, Siddham Sidd, Sidetic Sidt, SignWriting Sgnw,
  Sinhala Sinh, Sogdian Sogd, Sora_Sompeng Sora, Soyombo Soyo, Sundanese Sund, Sunuwar Sunu, Syloti_Nagri Sylo,
  Syriac Syrc, Tagalog Tglg, Tagbanwa Tagb, Tai_Le Tale, Tai_Tham Lana, Tai_Viet Tavt, Tai_Yo Tayo, Takri Takr,
  Tamil Taml, Tangsa Tnsa, Tangut Tang, Telugu Telu, Thaana Thaa, Thai, Tibetan Tibt, Tifinagh Tfng, Tirhuta Tirh,
  Todhri Todr, Tolong_Siki Tols, Toto, Tulu_Tigalari Tutg, Ugaritic Ugar, Unknown Zzzz, Vai Vaii, Vithkuqi Vith,
  Wancho Wcho, Warang_Citi Wara, Yezidi Yezi, Yi Yiii, Zanabazar_Square Zanb`;

const binaries = `ASCII_Hex_Digit AHex, Alphabetic Alpha, Bidi_Control Bidi_C, Bidi_Mirrored Bidi_M, Case_Ignorable CI, Cased,
  Changes_When_Casefolded CWCF, Changes_When_Casemapped CWCM, Changes_When_Lowercased CWL,
  Changes_When_NFKC_Casefolded CWKCF, Changes_When_Titlecased CWT, Changes_When_Uppercased CWU, Dash,
  Default_Ignorable_Code_Point DI, Deprecated Dep, Diacritic Dia, Emoji, Emoji_Component EComp, Emoji_Modifier EMod,
  Emoji_Modifier_Base EBase, Emoji_Presentation EPres, Extended_Pictographic ExtPict, Extender Ext, Grapheme_Base Gr_Base,
  Grapheme_Extend Gr_Ext, Hex_Digit Hex, IDS_Binary_Operator IDSB, IDS_Trinary_Operator IDST, ID_Continue IDC,
  ID_Start IDS, Ideographic Ideo, Join_Control Join_C, Logical_Order_Exception LOE, Lowercase Lower, Math,
  Noncharacter_Code_Point NChar, Pattern_Syntax Pat_Syn, Pattern_White_Space Pat_WS, Quotation_Mark QMark, Radical,
  Regional_Indicator RI, Sentence_Terminal STerm, Soft_Dotted SD, Terminal_Punctuation Term, Unified_Ideograph UIdeo,
  Uppercase Upper, Variation_Selector VS, White_Space space, XID_Continue XIDC, XID_Start XIDS`;

const entries = (text) => text.split(',').map((entry) => entry.trim().split(/\s+/));
let all = '';
for (let c = 0; c <= 0x10FFFF; c++) all += c >= 0xD800 && c <= 0xDFFF ? '' : String.fromCodePoint(c);

function ranges(expression) {
  const out = [];
  for (const match of all.matchAll(new RegExp(`${expression}+`, 'gu'))) {
    let from = null, last = null;
    for (const c of match[0]) {
      const code = c.codePointAt(0);
      if (from !== null && code !== last + 1) { out.push([from, last]); from = null; }
      if (from === null) from = code;
      last = code;
    }
    out.push([from, last]);
  }
  return out;
}

function encoded(pairs) {
  let end = 0;
  return pairs.map(([low, high]) => {
    const text = (low - end).toString(36) + (high > low ? '.' + (high - low + 1).toString(36) : '');
    end = high + 1;
    return text;
  }).join(' ');
}

const line = (key, names, text) => console.log(`${key} ${names.join('=')} ${text}`.trimEnd());

console.log(`# Unicode ${process.versions.unicode}; written by make_unicode.mjs`);
for (const names of entries(categories)) line('gc', names, encoded(ranges(`\\p{gc=${names[0]}}`)));
for (const names of entries(scripts)) {
  const own = encoded(ranges(`\\p{Script=${names[0]}}`));
  const wide = encoded(ranges(`\\p{Script_Extensions=${names[0]}}`));
  for (const name of names) new RegExp(`\\p{Script=${name}}`, 'u');
  line('sc', names, own);
  if (wide !== own) line('scx', names, wide);
}
for (const names of entries(binaries)) line('bin', names, encoded(ranges(`\\p{${names[0]}}`)));

const cased = [...all].filter((c) => c.toLowerCase() !== c || c.toUpperCase() !== c);
const seen = new Set();
const orbits = [];
const candidates = [...new Set([...cased, ...cased.flatMap((c) => [...c.toLowerCase(), ...c.toUpperCase()])])].join('');
for (const c of candidates) {
  if (seen.has(c)) continue;
  const orbit = candidates.match(new RegExp(`\\u{${c.codePointAt(0).toString(16)}}`, 'giu'));
  orbit.forEach((member) => seen.add(member));
  if (orbit.length > 1) orbits.push(orbit.map((member) => member.codePointAt(0)).sort((a, b) => a - b));
}
orbits.sort((a, b) => a[0] - b[0]);
line('fold', ['orbits'], orbits.map((orbit) => orbit.map((code) => code.toString(16)).join('=')).join(' '));
