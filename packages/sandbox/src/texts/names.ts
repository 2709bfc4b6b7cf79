/**
 * Names of people by language code, and their spelling in email addresses. If no rule gives the Latin letters, they follow
 * the name (`さくら=sakura`); `_` is a space within a name.
 */

export interface Names {
  firstNames: readonly string[];
  lastNames: readonly string[];
}

const FIRST: Readonly<Record<string, string>> = {
  en: `Olivia Noah Amelia George Priya Siobhán Kwame Zoë J. D'Arcy Alice Arthur Beatrice Benjamin Callum Charlotte Chidi
    Daisy Daniel Edith Eleanor Elliot Emma Esther Ethan Fiona Florence Frank Freya Gareth Grace Hannah Harriet Harry
    Hugh Imogen Imran Isaac Isla Ivy Jack Jasmine Joan Joseph Kemi Laura Leo Lewis Lucy Maeve Margaret Martin Maya
    Meera Nadia Nathan Niamh Nigel Oscar Patrick Penelope Peter Phoebe Rachel Rhys Robin Rosie Rowan Ruby Samuel Sarah
    Sean Stella Tariq Theo Una Victor Wendy Winston`,
  de: `Jürgen Käthe Lena Björn Anneliese Mehmet Andreas Angela Anton Barbara Bernd Birgit Carla Christoph Dieter Dörte
    Elif Emil Felix Frieda Friederike Georg Greta Günther Hanna Heike Henrik Ida Ilse Jakob Johanna Jonas Jörg Karla
    Karl-Heinz Katrin Klaus Lars Leonie Lotte Lukas Marlene Matthias Maximilian Moritz Nele Paul Renate Sabine Sören
    Thekla Tobias Ulrike Uwe Walburga Wolfgang`,
  fr: `Éloïse François Anaïs Jérôme Maëlys Adèle Amandine Antoine Aurélie Baptiste Benoît Camille Cécile Chantal Clément
    Corentin Delphine Didier Élodie Émile Étienne Fabien Gaëlle Gilles Hélène Hugo Inès Jean-Luc Josiane Juliette
    Laurent Léa Loïc Lucie Manon Marcel Marie-Claude Mathieu Nicolas Noémie Océane Pascal Raphaël Rémi Solène Sylvie
    Théo Thierry Valérie Yasmine Zélie`,
  es: `Íñigo María_José Nuño Lucía Adrián Alba Alejandro Álvaro Ana Andrés Beatriz Begoña Carlos Carmen Catalina Diego
    Dolores Elena Emilio Esteban Eva Fernando Gonzalo Inés Javier Jimena Joaquín José_Luis Juan Julia Laura Leonor
    Lorenzo Manuel Marta Martín Mateo Mónica Natalia Noelia Óscar Pablo Paloma Paula Pilar Ramón Raquel Rocío Sofía
    Teresa Tomás Valentina Vicente Ximena`,
  ja: `さくら=sakura 太郎=taro 美咲=misaki ユキ=yuki 健一=kenichi 陽菜=hina 大輔=daisuke 結衣=yui 翔太=shota 葵=aoi 直樹=naoki
    真由美=mayumi 拓也=takuya 恵子=keiko 悠斗=yuto 七海=nanami 誠=makoto 智子=tomoko 蓮=ren 花子=hanako 浩二=koji 千尋=chihiro
    亮=ryo 由美子=yumiko 隆=takashi 彩香=ayaka 和也=kazuya 久美子=kumiko 学=manabu エミ=emi 光=hikaru 沙織=saori`,
  ar: `فاطمة=fatima يوسف=youssef ليلى=layla عبد_الرحمن=abdelrahman أحمد=ahmed مريم=maryam خالد=khaled نور=nour عمر=omar
    هدى=huda حسن=hassan سلمى=salma كريم=karim رنا=rana طارق=tarek دينا=dina سامي=sami زينب=zeinab مصطفى=mostafa
    أمل=amal إبراهيم=ibrahim ياسمين=yasmin وليد=walid رانيا=rania زياد=ziad منى=mona هشام=hisham سعاد=souad`,
  he: `נועה=noa איתן=eitan שִׁירָה=shira דוד=david תמר=tamar יוסף=yosef מאיה=maya אורי=uri רחל=rachel עמית=amit יעל=yael
    גיל=gil מיכל=michal רון=ron דנה=dana אלון=alon הדס=hadas נדב=nadav רות=ruth יונתן=yonatan ענת=anat שלמה=shlomo
    טליה=talia ברק=barak`,
  ru: `Алёна=alyona Дмитрий=dmitry Софья=sofya Анна=anna Иван=ivan Мария=maria Сергей=sergey Екатерина=ekaterina
    Алексей=alexey Ольга=olga Андрей=andrey Татьяна=tatyana Михаил=mikhail Наталья=natalya Павел=pavel Ирина=irina
    Николай=nikolay Дарья=darya Артём=artyom Полина=polina Виктор=viktor Юлия=yulia Олег=oleg Вера=vera
    Константин=konstantin Ксения=ksenia Георгий=georgy Надежда=nadezhda`,
  hi: `अनन्या=ananya विक्रम=vikram ज्योत्स्ना=jyotsna राहुल=rahul प्रिया=priya अर्जुन=arjun काव्या=kavya संजय=sanjay मीरा=meera
    अमित=amit नेहा=neha राजेश=rajesh सुनीता=sunita रोहन=rohan दीपिका=deepika मनोज=manoj पूजा=pooja सुरेश=suresh
    आरव=aarav गीता=geeta नितिन=nitin स्वाति=swati`,
  pt: `João Conceição Inês Afonso Ana Antônio Beatriz Bruno Camila Catarina Duarte Eduardo Fernanda Francisco Gabriela
    Gonçalo Helena Henrique Isabel Joana José Júlia Larissa Leonor Luís Mafalda Marcos Margarida Mateus Miguel Paulo
    Rafael Rita Rui Salvador Tânia Teresa Tiago Vera Vinícius`,
  zh: `小梅=xiaomei 志強=zhiqiang 玥=yue 伟=wei 芳=fang 秀英=xiuying 建国=jianguo 静=jing 雅婷=yating 俊傑=junjie 思远=siyuan
    婉君=wanjun 明=ming 丽=li 怡君=yijun 宏達=hongda 子涵=zihan 文博=wenbo 淑芬=shufen 家豪=jiahao 雨桐=yutong 海燕=haiyan
    永福=yongfu 晓东=xiaodong`,
  ko: `서연=seoyeon 민준=minjun 하늘=haneul 지우=jiwoo 서준=seojun 하은=haeun 도윤=doyun 수빈=subin 예준=yejun 지민=jimin
    현우=hyunwoo 유진=yujin 은지=eunji 준호=junho 미영=miyoung 성훈=sunghoon 영숙=youngsook 동현=donghyun 채원=chaewon
    태양=taeyang 소영=soyoung 정훈=junghoon`,
  th: `สมชาย=somchai กัญญา=kanya ปิ่น=pin สมหญิง=somying อนันต์=anan มาลี=malee ประเสริฐ=prasert นภา=napa วิชัย=wichai
    สุดา=suda ธนพล=thanapon พิมพ์ใจ=pimjai ณัฐพล=nattapon อรุณี=arunee กิตติ=kitti วรรณา=wanna ชัยวัฒน์=chaiwat ดวงใจ=duangjai
    ศิริพร=siriporn เอกชัย=ekachai`,
};

const LAST: Readonly<Record<string, string>> = {
  en: `Whitfield O’Connell Adeyemi Smith-Jones Patel Macdonald van_der_Berg Li Abbott Ahmed Ainsworth Armitage Bains Barker
    Beckett Bell Blackwood Boateng Bradshaw Brennan Burgess Campbell Carrington Chaudhry Clarke Cooper Crawford Dalton
    Davies Dixon Doyle Ellis Evans Farrell Fielding Fletcher Foster Gallagher Gibson Griffiths Hargreaves Hartley Hayes
    Holloway Hughes Hussain Jenkins Kaur Kavanagh Kendall Lambert Langley Lockwood Lowe Mahmood Marsh McAllister Mensah
    Middleton Murphy Nakamura Nash Nwosu Osborne Palmer Pemberton Quinn Radcliffe Rahman Rhodes Sharp Sinclair Stanhope
    Sutton Thackeray Thornton Underhill Vaughan Walsh Wyatt Yates`,
  de: `Müller Weiß von_Brühl Yıldız Öztürk-Groß Schäfer Ackermann Albrecht Bauer Becker Böhm Brandt Demirci Dietrich
    Eberhardt Engel Fischer Frank Fuchs Gebhardt Graf Günther Haas Hartmann Hofmann Huber Jansen Jäger Kaiser Keller
    Köhler Krämer Kühn Lange Lehmann Lindner Maurer Neumann Otto Petersen Pfeiffer Pohl Reuter Richter Roth Sauer
    Schröder Schulte-Hagen Seidel Sommer Thiele Vogt Wagner Winkler Zimmermann`,
  fr: `L'Hôpital Lefèvre Nguyễn Garçon Benoît Arnaud Aubert Barbier Baudouin Benali Berger Besson Bouchard Boulanger Caron
    Chevalier Colin Cordier Da_Silva Delacroix Deschamps Diallo Dubreuil Dumas Fabre Faure Fontaine Gauthier Girard
    Guérin Huet Jacquet Lacombe Lambert Laurent Leclercq Lemoine Marchand Masson Mercier Morel Noël Pelletier Perrin
    Renaud Rousseau Roussel Sauvage Tessier Traoré Vasseur Vidal`,
  es: `Peña García_Núñez Ibáñez Quiroga Aguirre Alonso Álvarez Arriaga Barrios Benítez Bravo Cabrera Calvo Campos Cano
    Castillo Cordero Cortés Delgado Domínguez Echeverría Escobar Espinosa Ferrer Fuentes Gallardo Gil Guerrero Herrero
    Iglesias Jiménez León Lozano Marín Medina Molina Montero Muñoz Navarro Ortega Pascual Prieto Ramos Rey Ríos Rivas
    Román Sáez Salas Santana Serrano Soto Vargas Vega Zamora`,
  ja: `髙橋=takahashi 渡邊=watanabe 小林=kobayashi 𠮷田=yoshida 佐藤=sato 鈴木=suzuki 田中=tanaka 伊藤=ito 山本=yamamoto
    中村=nakamura 加藤=kato 山田=yamada 佐々木=sasaki 松本=matsumoto 井上=inoue 木村=kimura 林=hayashi 清水=shimizu
    斎藤=saito 山口=yamaguchi 森=mori 池田=ikeda 橋本=hashimoto 阿部=abe 石川=ishikawa 前田=maeda 藤田=fujita 岡田=okada
    長谷川=hasegawa 村上=murakami`,
  ar: `الخطيب=alkhatib حدّاد=haddad المصري=almasri بن_سعيد=bensaid النجار=najjar العلي=alali منصور=mansour الشريف=alsharif
    حمدان=hamdan سليمان=suleiman القاسم=alqasim درويش=darwish خليل=khalil الزهراني=alzahrani فارس=faris عثمان=othman
    البكري=albakri صالح=saleh الحسيني=alhusseini بركات=barakat قباني=qabbani عواد=awad شاهين=shahin العمري=alomari`,
  he: `כהן=cohen בן־דוד=bendavid לוי=levi מזרחי=mizrahi פרץ=peretz ביטון=biton אברהם=avraham פרידמן=friedman שפירא=shapira
    אזולאי=azoulay דהן=dahan קליין=klein רוזנברג=rosenberg גולן=golan אשכנזי=ashkenazi סגל=segal ברק=barak הררי=harari
    שרון=sharon אלמוג=almog וייס=weiss בר־לב=barlev`,
  ru: `Щербаков=shcherbakov Йылмаз=yilmaz Соловьёв=solovyov Иванов=ivanov Кузнецов=kuznetsov Попов=popov Васильев=vasilyev
    Новиков=novikov Фёдоров=fyodorov Морозов=morozov Волков=volkov Лебедев=lebedev Козлов=kozlov Ильин=ilyin
    Гусев=gusev Титов=titov Белов=belov Комаров=komarov Орлов=orlov Макаров=makarov Зайцев=zaytsev Ткаченко=tkachenko
    Черных=chernykh Шевчук=shevchuk Ахметов=akhmetov Журавлёв=zhuravlyov`,
  hi: `शर्मा=sharma कुलकर्णी=kulkarni अय्यर=iyer गुप्ता=gupta सिंह=singh वर्मा=verma पटेल=patel जोशी=joshi मिश्रा=mishra रेड्डी=reddy
    नायर=nair देशपांडे=deshpande चौधरी=chaudhary मेहता=mehta अग्रवाल=agarwal त्रिपाठी=tripathi बनर्जी=banerjee यादव=yadav
    कपूर=kapoor भट्ट=bhatt`,
  pt: `Guimarães de_Brito Antunes Almeida Araújo Azevedo Barbosa Bastos Cardoso Carvalho Coelho Correia Cunha Esteves Faria
    Figueiredo Fonseca Freitas Gonçalves Lacerda Leitão Lopes Macedo Magalhães Marques Mendonça Monteiro Nóbrega
    Nogueira Paiva Pinheiro Queirós Rezende Rocha Sampaio Simões Tavares Teixeira Vasconcelos Xavier`,
  zh: `陳=chen 歐陽=ouyang 龍=long 王=wang 李=li 张=zhang 刘=liu 杨=yang 黃=huang 赵=zhao 吳=wu 周=zhou 徐=xu 孙=sun 马=ma 朱=zhu
    胡=hu 郭=guo 何=he 林=lin 高=gao 罗=luo 鄭=zheng 梁=liang 謝=xie 宋=song`,
  ko: `김=kim 남궁=namgung 최=choi 이=lee 박=park 정=jung 강=kang 조=cho 윤=yoon 장=jang 임=lim 한=han 오=oh 서=seo 신=shin 권=kwon
    황=hwang 안=ahn 송=song 홍=hong 제갈=jegal 배=bae`,
  th: `ศรีสุข=srisuk ณ_อยุธยา=naayutthaya วงศ์ใหญ่=wongyai ทองดี=thongdee แสงจันทร์=saengchan บุญมี=boonmee สุขใจ=sukjai
    รัตนกุล=rattanakul พงษ์ไพร=pongprai จันทร์เพ็ญ=chanpen ชัยชนะ=chaichana ใจดี=jaidee มณีรัตน์=maneerat คำแก้ว=khamkaew
    สายทอง=saithong เจริญสุข=charoensuk วัฒนชัย=wattanachai นิลวงศ์=nilwong`,
};

/** Latin spelling of every name in the pools. */
const LATIN = new Map<string, string>();

export function namesOf(code: string): Names {
  return { firstNames: listed(FIRST[code]!), lastNames: listed(LAST[code]!) };
}

function listed(text: string): string[] {
  return text.split(/\s+/).map(entry => {
    const [name, latin] = entry.replaceAll('_', ' ').split('=') as [string, string?];
    LATIN.set(name, latin ?? plainLatin(name));
    return name;
  });
}

/** Latin spelling of letters that Unicode does not decompose, and of German umlauts. */
const LETTERS: Readonly<Record<string, string>> = { ß: 'ss', ı: 'i', ä: 'ae', ö: 'oe', ü: 'ue' };

function plainLatin(name: string): string {
  const split = name.toLowerCase().replaceAll(/[ßıäöü]/g, letter => LETTERS[letter]!);
  return split.normalize('NFD').replaceAll(/[^a-z]/g, '');
}

/** The name in at most 20 letters a to z; '' if its spelling is unknown. */
export function inLatin(name: string | null): string {
  if (name === null) return '';
  // Without its last letter: a Russian name of a woman (see agreeing).
  const root = LATIN.get(name.slice(0, -1));
  return LATIN.get(name) ?? (root === undefined ? plainLatin(name).slice(0, 20) : `${root}a`);
}

/** The last name that fits the first name: Russian last names of women have another ending. */
export function agreeing(firstName: string | null, lastName: string): string {
  return /[ая]$/.test(firstName ?? '') && /[оеё]в$|ин$/.test(lastName) ? `${lastName}а` : lastName;
}
