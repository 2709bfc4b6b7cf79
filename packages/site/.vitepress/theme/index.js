/** The theme of VitePress. The name of a block's language is too pale to be read, and goes. */
import theme from 'vitepress/theme';
import './site.css';

export default theme;
